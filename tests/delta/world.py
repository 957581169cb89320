"""A DuckDB that plays PostgreSQL in the tests of the law: sources, buffers, states, types.

Sources stand at AFTER, buffers keep the weighted rows of every window so far, states stand at
BEFORE until a refresh commits.  The reads of a plan run here as they are written, but for the
marks that a refresh fills in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import sqlglot

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.delta.layout import COUNT, Layout
from pgtrickle.delta.reads import buffer_relation, fill_marks, keys_mark, stage_changes
from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.sql.bound import BoundQuery, Relation
from pgtrickle.sql.translate import Dialect, translate
from tests.fakes.engine import connect

INT4 = SqlType("integer", "int4", "N")
INT8 = SqlType("bigint", "int8", "N")
NUMERIC = SqlType("numeric", "numeric", "N")
FLOAT8 = SqlType("double precision", "float8", "N")
TEXT = SqlType("text", "text", "S", collation="C")
BOOL = SqlType("boolean", "bool", "B")

Row = tuple[Any, ...]
Weighted = tuple[Row, int]


@dataclass(frozen=True, slots=True)
class Table:
    """A source of the tests, and the values its columns can have."""

    name: str
    relid: int
    columns: tuple[Column, ...]
    domains: tuple[tuple[object, ...], ...]

    @property
    def relation(self) -> Relation:
        """The table as PostgreSQL would report it."""
        return Relation(self.relid, QualifiedName("public", self.name), self.columns)


_SMALL = (0, 1, None, 2)
_WORDS = ("x", None, "y", "")
_HALVES = (Decimal("0.50"), None, Decimal("2.00"), Decimal("-1.50"))
TABLES = (
    Table(
        "t",
        1,
        (Column("a", INT4), Column("b", INT4), Column("c", TEXT)),
        (_SMALL, _SMALL, _WORDS),
    ),
    Table(
        "u",
        2,
        (
            Column("a", INT4),
            Column("d", INT8),
            Column("n", SqlType("numeric(10,2)", "numeric", "N", 10, 2)),
        ),
        (_SMALL, (0, None, 1, 3_000_000_000), _HALVES),
    ),
    Table(
        "v",
        3,
        (Column("b", INT4), Column("c", TEXT), Column("f", FLOAT8)),
        (_SMALL, _WORDS, (0.5, None, -1.5, 0.0)),
    ),
)
RELIDS = {table.name: table.relid for table in TABLES}
COLUMNS = {table.name: tuple(column.name for column in table.columns) for table in TABLES}

_KEYS_MARK = re.compile(r":keys\(([^,()]+),([^()]+)\)")
_STAGE_CHANGES = re.compile(r'FROM ("group_\d+__changes")')
_AGGREGATE = re.compile(r'(count|sum|avg|min|max)\((?:\*|(?:DISTINCT )?"(\w+)")\)', re.IGNORECASE)
# PostgreSQL functions that compiled queries call and that DuckDB lacks.
_MACROS = (
    "CREATE MACRO scale(x) AS CASE WHEN x IS NULL THEN NULL ELSE 3 END",
    "CREATE MACRO pg_round(x, digits) AS round(x::DOUBLE, digits)",
)


class World:
    """Sources, buffers and states on one connection."""

    def __init__(self) -> None:
        self.connection = connect()
        for statement in ("CREATE SCHEMA public", "CREATE SCHEMA pgtrickle_changes", *_MACROS):
            self.connection.execute(statement)
        for table in TABLES:
            listed = ", ".join(f"{c.name} {c.type.display}" for c in table.columns)
            buffer = buffer_relation(table.relid).sql
            self.connection.execute(f"CREATE TABLE public.{table.name} ({listed})")
            self.connection.execute(f"CREATE TABLE {buffer} ({listed}, __weight int, __xid int)")
        self.typer = DuckDbTyper(self)
        self.window = 0

    def close(self) -> None:
        self.connection.close()

    # Sources

    def reset(self, bags: Mapping[str, Sequence[Row]]) -> None:
        """Empty the buffers and fill the sources; only the tables named take part."""
        self.window = 0
        statements = []
        for name, rows in bags.items():
            statements.append(f"TRUNCATE {buffer_relation(RELIDS[name]).sql}")
            statements += _fill(name, rows)
        self.connection.execute(";".join(statements))

    def advance(
        self, bags: Mapping[str, Sequence[Row]], changes: Mapping[str, Sequence[Weighted]]
    ) -> None:
        """Open the next window: sources move to AFTER, buffers receive the changes."""
        self.window += 1
        statements = []
        for name, weighted in changes.items():
            if weighted:
                rows = [(*row, weight, self.window) for row, weight in weighted]
                buffer = buffer_relation(RELIDS[name]).sql
                statements += _fill(name, bags[name])
                statements.append(f"INSERT INTO {buffer} VALUES {_tuples(rows)}")
        if statements:
            self.connection.execute(";".join(statements))

    # Reads

    def fill(self, sql: str) -> str:
        """Fill the marks of a read in, as the refresh does."""
        keys = {
            keys_mark(stage, column): (
                f"ARRAY(SELECT {quote_identifier(column)} FROM main.{stage_changes(stage)})"
            )
            for stage, column in _KEYS_MARK.findall(sql)
        }
        # A stage's changes are a table here; the engine's view of them has the same name.
        sql = _STAGE_CHANGES.sub(r"FROM main.\1", sql)
        return fill_marks(sql, f"__xid = {self.window}", keys)

    def rows(self, sql: str) -> list[Row]:
        return self.connection.execute(sql).fetchall()

    def column_names(self, sql: str) -> tuple[str, ...]:
        """Return the names of a query's columns."""
        answer = self.connection.execute(f"SELECT * FROM ({to_duckdb(sql)}) AS q LIMIT 0")
        return tuple(name for name, *_ in answer.description)

    def arrow(self, sql: str) -> pa.Table:
        return self.connection.execute(sql).to_arrow_table()

    def relation(self, columns: Sequence[Column], rows: Iterable[Row]) -> str:
        """Write rows as a relation of typed columns."""
        rows = list(rows)
        names = [quote_identifier(column.name) for column in columns]
        listed = ", ".join(
            f"CAST({name} AS {_storage_type(column.type)}) AS {name}"
            for name, column in zip(names, columns, strict=True)
        )
        values = _tuples(rows or [(None,) * len(columns)])
        where = "" if rows else " WHERE false"
        return f"SELECT {listed} FROM (VALUES {values}) AS data ({', '.join(names)}){where}"

    def store(self, table: str, select: str) -> None:
        """Replace a table by the answer of a query."""
        self.connection.execute(f"CREATE OR REPLACE TABLE {table} AS {select}")


def bound_query(sql: str, columns: Sequence[Column]) -> BoundQuery:
    """Present a query over the tables of the tests as PostgreSQL would have bound it."""
    relations = {table.relation.name: table.relation for table in TABLES}
    reads = {table.relid: tuple(c.name for c in table.columns) for table in TABLES}
    return BoundQuery(sql, tuple(columns), relations, reads, "public")


def state_columns(layout: Layout) -> tuple[Column, ...]:
    """Return the columns of the memory of an aggregate: keys, sums, looked-up results."""
    return (
        *layout.keys,
        Column(COUNT, INT8),
        *(Column(one.name, one.type) for one in layout.accumulators),
        *(Column(result.name, result.type) for result in layout.looked_up),
    )


def results_over(layout: Layout, memory: str, *more: str) -> str:
    """Write the query that computes an aggregate's results from its memory."""
    parts = [quote_identifier(key.name) for key in layout.keys]
    for result in layout.shown:
        value = _for_duckdb(result.sql) if result.sql else quote_identifier(result.name)
        parts.append(f"{value} AS {quote_identifier(result.name)}")
    return f"SELECT {', '.join([*parts, *more]) or '1 AS __one'} FROM {memory}"


class DuckDbTyper:
    """Answers ``pgtrickle.sql.bound.Typer`` with DuckDB's types under PostgreSQL's names."""

    def __init__(self, world: World) -> None:
        self._world = world
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
        answer = self._world.connection.execute(f"SELECT * FROM ({to_duckdb(sql)}) AS x LIMIT 0")
        return tuple(
            Column(name, _POSTGRES_TYPES[str(type_).partition("(")[0]])
            for name, type_, *_ in answer.description
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
        [(_, type_, *_)] = self._world.connection.execute(query).description
        return _POSTGRES_TYPES[str(type_).partition("(")[0]]


_POSTGRES_TYPES = {
    "INTEGER": INT4,
    "BIGINT": INT8,
    "HUGEINT": NUMERIC,
    "DECIMAL": NUMERIC,
    "DOUBLE": FLOAT8,
    "VARCHAR": TEXT,
    "BOOLEAN": BOOL,
}


def literal(value: object) -> str:
    """Write a value as SQL text without losing a bit of it."""
    match value:
        case None:
            return "NULL"
        case bool() | int() | Decimal():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def to_duckdb(sql: str) -> str:
    """Write a query of PostgreSQL's dialect in DuckDB's."""
    return sqlglot.transpile(sql, read="postgres", write="duckdb")[0]


def _tuples(rows: Iterable[Row]) -> str:
    return ", ".join(f"({', '.join(map(literal, row)) or 'NULL'})" for row in rows)


def _fill(name: str, rows: Sequence[Row]) -> list[str]:
    statements = [f"TRUNCATE public.{name}"]
    if rows:
        statements.append(f"INSERT INTO public.{name} VALUES {_tuples(rows)}")
    return statements


def _storage_type(type_: SqlType) -> str:
    return "DECIMAL(38, 3)" if type_ == NUMERIC else type_.display


def _for_duckdb(sql: str) -> str:
    return sql.replace("round(", "pg_round(")
