"""The queries of a circle as equations, each with the rows that new rows of a table add to it.

    Aᵢ = Qᵢ(A₁ … Aₙ, S)          S: the tables outside the circle that it reads

``monotone`` has made sure that each query distributes over the rows of every table that it names.
So the rows that a table's new rows Δ add are the query with Δ in place of that table, once for each
occurrence of the table, with all rows in every other place.  Views and CTEs are written out
first, so that each name occurs in one place only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.bound import BoundQuery, Relation
from pgtrickle.sql.text.parse_bound import parse_bound


@dataclass(frozen=True, slots=True)
class Equation:
    """The query of one member, without views and CTEs, as the branches of its UNION."""

    branches: tuple[exp.Expr, ...]
    relations: Mapping[QualifiedName, Relation]

    @classmethod
    def of(cls, query: BoundQuery) -> Equation:
        """Write the views and CTEs of a query out."""
        tree = _Expansion(query.relations).of(parse_bound(query.sql), {})
        return cls(tuple(_branches(tree)), query.relations)

    def whole(self, instead: Mapping[int, str]) -> list[str]:
        """Write the query with other rows (queries, by relid) in place of some tables."""
        return [self._written(branch, instead, None, "") for branch in self.branches]

    def growth(self, instead: Mapping[int, str], new: Mapping[int, str]) -> list[str]:
        """Write the queries for the rows that new rows of some tables add, one per occurrence."""
        return [
            self._written(branch, instead, place, new[relid])
            for branch in self.branches
            for place, relid in enumerate(map(self._relid, _tables(branch)))
            if relid in new
        ]

    def _relid(self, table: exp.Table) -> int:
        return self.relations[QualifiedName(table.db, table.name)].relid

    def _written(
        self, branch: exp.Expr, instead: Mapping[int, str], place: int | None, new: str
    ) -> str:
        tree = branch.copy()
        for number, table in enumerate(_tables(tree)):
            rows = new if number == place else instead.get(self._relid(table))
            if rows is not None:
                query = sqlglot.parse_one(rows, dialect="postgres")
                table.replace(_derived(table, query, ()))
        return tree.sql(dialect="postgres")


def _branches(query: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the branches of a UNION; the order of its rows does not matter."""
    query = query.unnest()
    if isinstance(query, exp.Union):
        yield from _branches(query.left)
        yield from _branches(query.right)
    else:
        yield query


def _tables(tree: exp.Expr) -> list[exp.Table]:
    """Return the occurrences of tables in a query, always in the same order."""
    return [one for one in tree.find_all(exp.Table) if isinstance(one.this, exp.Identifier)]


class _Expansion:
    def __init__(self, relations: Mapping[QualifiedName, Relation]) -> None:
        self._relations = relations

    def of(self, node: exp.Expr, ctes: Mapping[str, tuple[exp.Expr, tuple[str, ...]]]) -> exp.Expr:
        if (clause := node.args.get("with_")) is not None:
            known = dict(ctes)
            for cte in clause.expressions:
                names = tuple(one.name for one in cte.args["alias"].args.get("columns") or ())
                known[cte.alias] = self.of(cte.this, known), names
            ctes = known
        arguments = {
            name: [self.of(one, ctes) if isinstance(one, exp.Expr) else one for one in value]
            if isinstance(value, list)
            else (self.of(value, ctes) if isinstance(value, exp.Expr) else value)
            for name, value in node.args.items()
            if name != "with_"
        }
        expanded = type(node)(**arguments)
        if not isinstance(expanded, exp.Table) or not isinstance(expanded.this, exp.Identifier):
            return expanded
        if not expanded.db and expanded.name in ctes:
            query, names = ctes[expanded.name]
            return _derived(expanded, query.copy(), names)
        relation = self._relations.get(QualifiedName(expanded.db, expanded.name))
        if relation is not None and relation.definition is not None:
            query = self.of(parse_bound(relation.definition), {})
            return _derived(expanded, query, tuple(one.name for one in relation.columns))
        return expanded


def _derived(table: exp.Table, query: exp.Expr, names: tuple[str, ...]) -> exp.Expr:
    """Return a query that replaces a table, under the names that the table has there."""
    given = table.args.get("alias")
    own = [one.name for one in (given.args.get("columns") or ())] if given else []
    shown = [*own, *names[len(own) :]]
    alias = exp.TableAlias(
        this=exp.to_identifier(table.alias_or_name, quoted=True),
        columns=[exp.to_identifier(one, quoted=True) for one in shown],
    )
    derived = exp.Subquery(this=query.unnest(), alias=alias)
    for name in ("joins", "laterals"):
        if table.args.get(name):
            derived.set(name, table.args[name])
    return derived
