"""Count the tables of a query with every view and CTE inlined.

They are counted before anything is inlined: ten CTEs that each use the one before twice are a
thousand tables, and thirty are more than memory holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from sqlglot import exp

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.bound import BoundQuery, Relation
from pgtrickle.sql.text.limits import MAX_GROUPING_SETS
from pgtrickle.sql.text.parse_bound import parse_bound


def count_inputs(query: BoundQuery) -> int:
    """Count the tables of a bound query, once per read."""
    return _Count(query.relations).of(query.sql)


class _Count:
    def __init__(self, relations: Mapping[QualifiedName, Relation]) -> None:
        self._relations = relations
        self._views: dict[QualifiedName, int] = {}

    def of(self, sql: str) -> int:
        return self._tables(parse_bound(sql), {})

    def _tables(self, query: exp.Expr, ctes: Mapping[str, int]) -> int:
        """Count below one query; a name of a CTE counts as much as the CTE itself."""
        known = dict(ctes)
        with_clause = query.args.get("with_")
        for cte in with_clause.expressions if with_clause else ():
            known[cte.alias] = self._tables(cte.this, known)
        total = 0
        pending = [(query, 1)]
        while pending:
            node, times = pending.pop()
            if node is not query and node.args.get("with_"):
                total += times * self._tables(node, known)
                continue
            if isinstance(node, exp.Table):
                total += times * self._table(node, known)
            times *= _copies(node)
            pending += [(one, times) for one in node.iter_expressions() if one is not with_clause]
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


def _copies(node: exp.Expr) -> int:
    """Return how many times lowering uses the subtree of a node."""
    if isinstance(node, exp.Select) and (group := node.args.get("group")):
        sets = prod(_sets(one) for one in group.expressions)
        return sets if sets <= MAX_GROUPING_SETS else 1  # more sets are refused elsewhere
    # The right side of a FULL JOIN is needed once for its pairs, once for its unmatched rows.
    return 2 if isinstance(node, exp.Join) and node.side == "FULL" else 1


def _sets(item: exp.Expr) -> int:
    """Return the number of grouping sets of one item of GROUP BY."""
    match item:
        case exp.Rollup():
            return len(item.expressions) + 1
        case exp.Cube():
            return int(2 ** len(item.expressions))
        case exp.GroupingSets():
            return sum(map(_sets, item.expressions))
        case _:
            return 1
