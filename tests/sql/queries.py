"""Bound queries for the tests of the compiler, without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgtrickle.algebra.nodes import Query, Scalar
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.bound import BoundQuery, Relation, Typer
from pgtrickle.sql.lower.query import lower

INT4 = SqlType("integer", "int4", "N")
TEXT = SqlType("text", "text", "S", collation="C")
_COLUMNS = (Column("id", INT4), Column("k", INT4), Column("c", TEXT))
RELATIONS = {
    QualifiedName("public", name): Relation(number, QualifiedName("public", name), _COLUMNS)
    for number, name in enumerate(("t", "u", "v"), 1)
}


class OneType:
    """A typer for tests in which types do not matter: every expression has the same."""

    def __init__(self, type_: SqlType = INT4) -> None:
        self._type = type_

    def types_of(
        self, scalars: Sequence[Scalar], columns: Mapping[str, SqlType]
    ) -> tuple[SqlType, ...]:
        return (self._type,) * len(scalars)

    def query_columns(self, sql: str) -> tuple[Column, ...]:
        """Pretend that every query has one column."""
        return (Column("value", SqlType("bigint", "int8", "N")),)

    def union_types(self, branches: Sequence[Sequence[SqlType]]) -> tuple[SqlType, ...]:
        return tuple(branches[0])


def lowered(
    sql: str, columns: int = 1, relations: Sequence[Relation] = (), typer: Typer | None = None
) -> Query:
    """Lower a query over the tables t, u and v (id, k, c) of the schema public."""
    names = tuple(Column(f"c{number}", INT4) for number in range(columns))
    known = RELATIONS | {relation.name: relation for relation in relations}
    return lower(BoundQuery(sql, names, known, {}, "public"), typer or OneType())
