"""Compile the queries that a plan would create or replace, in a transaction that is rolled back.

A query may read stream tables that do not exist yet, or that will have other columns.  For each of
them an empty table with the columns to come is made in a schema of the transaction's own.  Nothing
that users have is locked against them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.errors import ColumnsDifferError, TrickleError
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.projects.project import ProjectTable
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.options.changes import read_options
from pgtrickle.plan.cost.count_work import count_full
from pgtrickle.plan.cost.outline import outline_full
from pgtrickle.plan.cost.work import ENGINE_PRICES, price
from pgtrickle.service.capturing.polled_sources import check_polled
from pgtrickle.service.compile import Compiled, check_refresh_mode, compile_query
from pgtrickle.service.lifecycle.create import check_columns
from pgtrickle.service.projects.files.load import rendered_for
from pgtrickle.service.refreshing.costing.table_statistics import read_statistics
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.storage.alter_columns import compare_columns
from pgtrickle.storage.apply import stored_columns
from pgtrickle.storage.definitions import column_definitions


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What compiling a query has shown."""

    another: bool = True  # than that of the stream table
    estimated_ms: float | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[QualifiedName, ...] = ()
    new_columns: bool = False
    breaking: str = ""  # how the columns break their readers
    problems: tuple[TrickleError, ...] = ()


@dataclass(slots=True)
class Rehearsal:
    """The transaction, and the stand-ins in it."""

    runtime: Runtime
    connection: Connection
    schema: str | None  # None: this role cannot make one
    stand_ins: dict[QualifiedName, QualifiedName] = field(default_factory=dict)
    unknown: set[QualifiedName] = field(default_factory=set)  # that are to come, without stand-in

    def compile(self, table: ProjectTable, existing: StreamTable | None) -> Rehearsed:
        """Compile the query of a stream table, and remember its columns for those that read it."""
        missing = [one for one in table.refs if one in self.unknown]
        if missing:
            self.unknown.add(table.name)
            names = ", ".join(map(str, missing))
            return Rehearsed(notes=(f"its query is checked when {names} is there",))
        try:
            with translated_errors():
                return self._compile(table, existing)
        except TrickleError as error:
            self.unknown.add(table.name)
            return Rehearsed(problems=(error,))

    def _compile(self, table: ProjectTable, existing: StreamTable | None) -> Rehearsed:
        query = rendered_for(table, self.stand_ins)
        path = self.runtime.users_path(table.search_path)
        compiled = compile_query(self.connection, query, path, Bounds.of(self.runtime.settings))
        same_text = query == table.query
        if existing and same_text and compiled.binding.query.sql == existing.defining_query:
            return Rehearsed(another=False)
        options = read_options(table.options)
        check_columns(compiled)
        check_polled(self.runtime.settings, compiled)
        check_refresh_mode(compiled, options.refresh_mode)
        notes = []
        if compiled.refusal is not None and options.refresh_mode is RefreshMode.AUTO:
            notes.append(f"every refresh computes it in full: {compiled.refusal}")
        new_columns, breaking = False, ""
        if existing is not None:
            stored = stored_columns(self.connection, existing.name)
            try:
                new_columns = bool(compare_columns(existing.name, stored, compiled.columns))
            except ColumnsDifferError as error:
                new_columns, breaking = True, error.detail or str(error)
        if existing is None or new_columns:
            self._stand_in(table.name, compiled.columns)
        names = {one.name for one in compiled.binding.query.relations.values()}
        hidden = set(self.stand_ins.values())
        return Rehearsed(
            estimated_ms=self._estimate(compiled, existing, options.engine),
            notes=tuple(notes),
            sources=tuple(sorted(names - hidden)),
            new_columns=new_columns,
            breaking=breaking,
        )

    def _stand_in(self, name: QualifiedName, columns: tuple[Column, ...]) -> None:
        if self.schema is None:
            self.unknown.add(name)
            return
        other = QualifiedName(self.schema, f"t{len(self.stand_ins)}")
        self.connection.execute(
            trusted(f"CREATE TABLE {other.sql} ({column_definitions(columns)})")
        )
        self.stand_ins[name] = other

    def _estimate(
        self, compiled: Compiled, existing: StreamTable | None, engine: EngineMode | None
    ) -> float | None:
        """Predict the time of computing everything; what does not exist yet counts as empty."""
        if compiled.opaque:
            return None
        relids = list(compiled.columns_used())
        with self.runtime.connection() as connection:  # a failure must not end the rehearsal
            statistics = read_statistics(connection, existing, compiled.staged, relids)
        work = count_full(outline_full(compiled.staged), statistics, None)
        modes = [self.runtime.engine_mode(engine)]
        if modes == [EngineMode.AUTO]:
            modes = [EngineMode.SPARK, EngineMode.POSTGRES]
        return min(price(work, ENGINE_PRICES[mode]) for mode in modes)


@contextmanager
def rehearsal(runtime: Runtime) -> Iterator[Rehearsal]:
    """Begin a rehearsal; whatever it makes is rolled back at the end of the block."""
    schema = f"pgtrickle_plan_{uuid.uuid4().hex[:12]}"
    with (
        runtime.connection() as connection,
        connection.transaction(force_rollback=True),
    ):
        try:
            with connection.transaction():
                connection.execute(trusted(f"CREATE SCHEMA {quote_identifier(schema)}"))
        except psycopg.errors.InsufficientPrivilege:
            yield Rehearsal(runtime, connection, None)
            return
        yield Rehearsal(runtime, connection, schema)
