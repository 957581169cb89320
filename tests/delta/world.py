"""A DuckDB that plays PostgreSQL in the tests of the law: sources, buffers, states.

Sources stand at AFTER, buffers keep the weighted rows of every window so far, states stand at
BEFORE until a refresh commits.  The reads of a plan run here as they are written, but for the
marks that a refresh fills in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pgtrickle.delta.reads import buffer_relation, fill_marks, keys_mark, stage_changes
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.sql.bound import BoundQuery, Relation
from tests.delta.dialect import literal, to_duckdb
from tests.delta.typer import FLOAT8, INT4, INT8, TEXT, DuckDbTyper, storage_type
from tests.fakes.engine import connect

Row = tuple[Any, ...]
Weighted = tuple[Row, int]


@dataclass(frozen=True, slots=True)
class Table:
    """A source of the tests."""

    name: str
    relid: int
    columns: tuple[Column, ...]

    @property
    def relation(self) -> Relation:
        """The table as PostgreSQL would report it."""
        return Relation(self.relid, QualifiedName("public", self.name), self.columns)


# The sources of cases that are written by hand.
TABLES = (
    Table("t", 1, (Column("a", INT4), Column("b", INT4), Column("c", TEXT))),
    Table(
        "u",
        2,
        (
            Column("a", INT4),
            Column("d", INT8),
            Column("n", SqlType("numeric(10,2)", "numeric", "N", 10, 2)),
        ),
    ),
    Table("v", 3, (Column("b", INT4), Column("c", TEXT), Column("f", FLOAT8))),
)

_SET_FUNCTIONS = frozenset({"generate_series", "unnest"})
_KEYS_MARK = re.compile(r":keys\(([^,()]+),([^()]+)\)")
_STAGE_CHANGES = re.compile(r'FROM ("\w+__changes")')
# PostgreSQL functions that compiled queries call and that DuckDB lacks, and PostgreSQL's order.
_SETUP = (
    "CREATE SCHEMA public",
    "CREATE SCHEMA pgtrickle_changes",
    "CREATE MACRO scale(x) AS CASE WHEN x IS NULL THEN NULL ELSE 3 END",
    "CREATE MACRO pg_round(x, digits) AS round(x::DOUBLE, digits)",
    "SET default_null_order = 'nulls_last_on_asc_first_on_desc'",
)


class World:
    """Sources, buffers and states on one connection."""

    def __init__(self) -> None:
        self.connection = connect()
        for statement in _SETUP:
            self.connection.execute(statement)
        self.typer = DuckDbTyper(self.connection)
        self.tables: dict[str, Table] = {}
        self.window = 0
        self.define(TABLES)

    def close(self) -> None:
        self.connection.close()

    # Sources

    def define(self, tables: Sequence[Table]) -> None:
        """Make these tables the sources, and forget the ones before."""
        if tuple(self.tables.values()) == tuple(tables):
            return
        statements = []
        for table in self.tables.values():
            statements += [f"DROP TABLE {name}" for name in _relations(table)]
        for table in tables:
            listed = ", ".join(f"{c.name} {c.type.display}" for c in table.columns)
            source, buffer = _relations(table)
            statements.append(f"CREATE TABLE {source} ({listed})")
            statements.append(f"CREATE TABLE {buffer} ({listed}, __weight int, __xid int)")
        self.connection.execute(";".join(statements))
        self.tables = {table.name: table for table in tables}

    def reset(self, bags: Mapping[str, Sequence[Row]]) -> None:
        """Empty the buffers and fill the sources; only the tables named take part."""
        self.window = 0
        statements = []
        for name, rows in bags.items():
            statements.append(f"TRUNCATE {buffer_relation(self.tables[name].relid).sql}")
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
                buffer = buffer_relation(self.tables[name].relid).sql
                statements += _fill(name, bags[name])
                statements.append(f"INSERT INTO {buffer} VALUES {_tuples(rows)}")
        if statements:
            self.connection.execute(";".join(statements))

    def bound_query(self, sql: str, columns: Sequence[Column]) -> BoundQuery:
        """Present a query over the sources as PostgreSQL would have bound it."""
        relations = {table.relation.name: table.relation for table in self.tables.values()}
        reads = {t.relid: tuple(c.name for c in t.columns) for t in self.tables.values()}
        return BoundQuery(sql, tuple(columns), relations, reads, "public", _SET_FUNCTIONS)

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

    def rows(self, sql: str, inputs: Mapping[str, pa.Table] | None = None) -> list[Row]:
        """Return the rows of a query; arrays come as tuples, which can be counted.

        ``inputs`` are relations that it names beside those of the world.
        """
        for name, table in (inputs or {}).items():
            self.connection.register(name, table)
        try:
            return list(map(countable, self.connection.execute(sql).fetchall()))
        finally:
            for name in inputs or {}:
                self.connection.unregister(name)

    def column_names(self, sql: str) -> tuple[str, ...]:
        """Return the names of a query's columns."""
        answer = self.connection.execute(f"SELECT * FROM ({to_duckdb(sql)}) AS q LIMIT 0")
        return tuple(name for name, *_ in answer.description)

    def arrow(self, sql: str) -> pa.Table:
        return self.connection.execute(sql).to_arrow_table()

    def relation(self, columns: Sequence[Column], rows: Iterable[Row]) -> str:
        """Write rows as a relation of typed columns."""
        rows = list(rows)
        if not columns:
            values = ", ".join(["(1)"] * len(rows)) or "(1)"
            return f"SELECT __one FROM (VALUES {values}) AS data (__one) WHERE {bool(rows)}"
        names = [quote_identifier(column.name) for column in columns]
        listed = ", ".join(
            f"CAST({name} AS {storage_type(column.type)}) AS {name}"
            for name, column in zip(names, columns, strict=True)
        )
        values = _tuples(rows or [(None,) * len(columns)])
        where = "" if rows else " WHERE false"
        return f"SELECT {listed} FROM (VALUES {values}) AS data ({', '.join(names)}){where}"

    def store(self, table: str, select: str) -> None:
        """Replace a table by the answer of a query."""
        self.connection.execute(f"CREATE OR REPLACE TABLE {table} AS {select}")


def countable(row: Row) -> Row:
    """Return a row whose arrays are tuples."""
    if any(isinstance(value, list) for value in row):
        return tuple(tuple(value) if isinstance(value, list) else value for value in row)
    return row


def _relations(table: Table) -> tuple[str, str]:
    return f"public.{table.name}", buffer_relation(table.relid).sql


def _tuples(rows: Iterable[Row]) -> str:
    return ", ".join(f"({', '.join(map(literal, row)) or 'NULL'})" for row in rows)


def _fill(name: str, rows: Sequence[Row]) -> list[str]:
    statements = [f"TRUNCATE public.{name}"]
    if rows:
        statements.append(f"INSERT INTO public.{name} VALUES {_tuples(rows)}")
    return statements
