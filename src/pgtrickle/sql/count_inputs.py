"""How many tables a query reads once every view and CTE stands where it is used.

Counted before anything is put in its place: ten CTEs that each use the one before twice are a
thousand tables, and thirty are more than memory holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from pgtrickle.model.names import QualifiedName
from pgtrickle.sql.bound import BoundQuery, Relation


def count_inputs(query: BoundQuery) -> int:
    """Count the tables of a bound query, each as often as it would be read."""
    return _Count(query.relations).of(query.sql)


class _Count:
    def __init__(self, relations: Mapping[QualifiedName, Relation]) -> None:
        self._relations = relations
        self._views: dict[QualifiedName, int] = {}

    def of(self, sql: str) -> int:
        return self._tables(sqlglot.parse_one(sql, dialect="postgres"), {})

    def _tables(self, query: exp.Expr, ctes: Mapping[str, int]) -> int:
        """Count below one query; a name of a CTE counts as much as the CTE itself."""
        known = dict(ctes)
        with_clause = query.args.get("with_")
        for cte in with_clause.expressions if with_clause else ():
            known[cte.alias] = self._tables(cte.this, known)
        total = 0
        pending = [child for child in query.iter_expressions() if child is not with_clause]
        while pending:
            node = pending.pop()
            if node.args.get("with_"):
                total += self._tables(node, known)
                continue
            if isinstance(node, exp.Table):
                total += self._table(node, known)
            pending += node.iter_expressions()
        return total

    def _table(self, table: exp.Table, ctes: Mapping[str, int]) -> int:
        if not table.db and table.name in ctes:
            return ctes[table.name]
        name = QualifiedName(table.db, table.name)
        relation = self._relations.get(name)
        if relation is None or relation.definition is None:
            return 1
        if name not in self._views:
            self._views[name] = self.of(relation.definition)
        return self._views[name]
