"""The types of expressions in PostgreSQL, found by describing queries that return no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import Connection, Cursor

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.binding.sql_types import resolve_types
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted


class PgTyper:
    """Answers ``pgtrickle.sql.bound.Typer`` from a live connection, inside its transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def types_of(
        self, scalars: Sequence[Scalar], columns: Mapping[str, SqlType]
    ) -> tuple[SqlType, ...]:
        """Return the type of each expression over columns of the given types."""
        if not scalars:
            return ()
        listed = ", ".join(
            f"NULL::{type_.display} AS {quote_identifier(name)}" for name, type_ in columns.items()
        )
        expressions = ", ".join(f"({scalar.sql})" for scalar in scalars)
        # OFFSET keeps the planner from putting the NULLs into the expressions: of a CASE it would
        # then describe the one branch that is left, numeric(8,2) where the whole is numeric.
        return self._describe(
            f"SELECT {expressions}"
            f" FROM (SELECT {listed or 'NULL AS nothing'} OFFSET 0) AS x LIMIT 0"
        )

    def query_columns(self, sql: str) -> tuple[Column, ...]:
        """Return the columns of a query that reads no table."""
        cursor = self._connection.execute(trusted(f"SELECT * FROM ({sql}) AS x LIMIT 0"))
        names = [column.name for column in cursor.description or ()]
        return tuple(
            Column(name, type_) for name, type_ in zip(names, self._types(cursor), strict=True)
        )

    def union_types(self, branches: Sequence[Sequence[SqlType]]) -> tuple[SqlType, ...]:
        """Return the column types of a UNION of rows of the given types."""
        selects = [
            "SELECT " + ", ".join(f"NULL::{type_.display}" for type_ in branch)
            for branch in branches
        ]
        return self._describe(f"{' UNION ALL '.join(selects)} LIMIT 0")

    def _describe(self, query: str) -> tuple[SqlType, ...]:
        # Text of this kind may hold a percent sign; without parameters psycopg leaves it alone.
        return self._types(self._connection.execute(trusted(query)))

    def _types(self, cursor: Cursor) -> tuple[SqlType, ...]:
        result = cursor.pgresult
        if result is None:
            raise AssertionError("a describing query has a result")
        pairs = [(result.ftype(index), result.fmod(index)) for index in range(result.nfields)]
        return resolve_types(self._connection, pairs)
