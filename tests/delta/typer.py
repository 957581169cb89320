"""The types of expressions, asked of DuckDB and told under PostgreSQL's names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import duckdb

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.sql.translate import Dialect, translate
from tests.delta.dialect import to_duckdb

INT4 = SqlType("integer", "int4", "N")
INT8 = SqlType("bigint", "int8", "N")
NUMERIC = SqlType("numeric", "numeric", "N")
FLOAT8 = SqlType("double precision", "float8", "N")
TEXT = SqlType("text", "text", "S", collation="C")
BOOL = SqlType("boolean", "bool", "B")
DATE = SqlType("date", "date", "D")

_AGGREGATE = re.compile(r'(count|sum|avg|min|max)\((?:\*|(?:DISTINCT )?"(\w+)")\)', re.IGNORECASE)
_POSTGRES_TYPES = {
    "INTEGER": INT4,
    "BIGINT": INT8,
    "UINTEGER": INT8,
    "UBIGINT": INT8,
    "HUGEINT": NUMERIC,
    "DECIMAL": NUMERIC,
    "DOUBLE": FLOAT8,
    "VARCHAR": TEXT,
    "BOOLEAN": BOOL,
    "DATE": DATE,
}


def storage_type(type_: SqlType) -> str:
    """Return DuckDB's name for a type; a free numeric gets room on both sides."""
    if type_.base.startswith("_"):
        return type_.display.replace("numeric", "DECIMAL(38, 3)")
    return "DECIMAL(38, 3)" if type_ == NUMERIC else type_.display


class DuckDbTyper:
    """Answers ``pgtrickle.sql.bound.Typer`` with DuckDB's types under PostgreSQL's names."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._known: dict[tuple[str, tuple[str, ...]], SqlType] = {}

    def types_of(
        self, scalars: Sequence[Scalar], columns: Mapping[str, SqlType]
    ) -> tuple[SqlType, ...]:
        """Return the type of each expression over columns of the given types."""
        keys = [
            (scalar.sql, tuple(columns[name].display for name in scalar.columns))
            for scalar in scalars
        ]
        for key, scalar in zip(keys, scalars, strict=True):
            if key not in self._known:
                self._known[key] = self._ask(scalar, columns)
        return tuple(self._known[key] for key in keys)

    def query_columns(self, sql: str) -> tuple[Column, ...]:
        """Return the columns of a query that reads no table."""
        answer = self._connection.execute(f"SELECT * FROM ({to_duckdb(sql)}) AS x LIMIT 0")
        return tuple(
            Column(name, _postgres_type(str(type_))) for name, type_, *_ in answer.description
        )

    def union_types(self, branches: Sequence[Sequence[SqlType]]) -> tuple[SqlType, ...]:
        """Return the column types of a UNION of rows of the given types."""
        return tuple(
            types[0] if len(set(types)) == 1 else self._union_type(types)
            for types in zip(*branches, strict=True)
        )

    def _ask(self, scalar: Scalar, columns: Mapping[str, SqlType]) -> SqlType:
        if match := _AGGREGATE.fullmatch(scalar.sql):
            return self._aggregate(match.group(1).lower(), columns.get(match.group(2) or ""))
        nulls = ", ".join(
            f"CAST(NULL AS {columns[name].display}) AS {quote_identifier(name)}"
            for name in scalar.columns
        )
        expression = translate(scalar, columns, Dialect.DUCKDB)
        return self._describe(f"SELECT {expression} FROM (SELECT {nulls or '1'}) AS x LIMIT 0")

    def _aggregate(self, function: str | None, argument: SqlType | None) -> SqlType:
        if function in {None, "count"} or argument is None:
            return INT8
        if function == "avg":
            return FLOAT8  # DuckDB's own answer; PostgreSQL says numeric
        if function == "sum" and argument.base != "float8":
            return INT8 if argument.base == "int4" else NUMERIC
        return argument

    def _union_type(self, types: Sequence[SqlType]) -> SqlType:
        selects = [f"SELECT CAST(NULL AS {type_.display})" for type_ in types]
        return self._describe(f"{' UNION ALL '.join(selects)} LIMIT 0")

    def _describe(self, query: str) -> SqlType:
        [(_, type_, *_)] = self._connection.execute(query).description
        return _postgres_type(str(type_))


def _postgres_type(name: str) -> SqlType:
    if name.endswith("[]"):
        element = _postgres_type(name.removesuffix("[]"))
        return SqlType(f"{element.display}[]", f"_{element.base}", "A")
    return _POSTGRES_TYPES[name.partition("(")[0]]
