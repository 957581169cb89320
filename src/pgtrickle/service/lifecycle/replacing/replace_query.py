"""Replace the query of a stream table, which stays the same table: see docs/adr/0022.

The new query is first loaded beside the old contents, as a *successor*: a stream table like any
other, with capture and state of its own, which nobody sees.  The stream table goes on meanwhile.
Then one transaction turns the contents into those of the successor, by the difference, and hands
its state, frontier and definition over.  Whatever fails before that commit leaves the stream table
as it was.

Where writers are to maintain the stream table, the successor is maintained by refreshes all the
same: nobody pays for it while it is loaded.  The caller lets writers follow after that commit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.circles import record_circles
from pgtrickle.catalog.dependencies import list_dependencies, list_dependents
from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.catalog.stream_tables import (
    delete_stream_table,
    find_plan,
    find_stream_table,
    get_stream_table,
    update_needs_reinit,
)
from pgtrickle.catalog.successors import (
    adopt_successor,
    insert_successor,
    keep_successor,
    list_abandoned,
    successor_name,
)
from pgtrickle.errors import (
    DependentsExistError,
    InternalError,
    LeaseHeldError,
    StreamTableNotFoundError,
    TrickleError,
)
from pgtrickle.immediate.install import drop_immediate
from pgtrickle.model.capture.cdc_mode import CdcMode, parse_cdc_mode
from pgtrickle.model.engine import EngineMode
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.options.stream_table import StreamTableOptions
from pgtrickle.plan.decide import Decision
from pgtrickle.service.capturing.mode import settle_capture
from pgtrickle.service.capturing.pause_and_repair import decide_durability
from pgtrickle.service.capturing.polled_sources import check_polled
from pgtrickle.service.capturing.sources import note_dependencies, release_sources
from pgtrickle.service.capturing.wal_slot import drop_unused_slot
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled, check_refresh_mode, compile_query
from pgtrickle.service.immediate.plans import check_immediate
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lifecycle.create import check_columns, declare
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.lifecycle.replacing.close_circle import Closing, find_closed
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.periodic import repeated
from pgtrickle.service.refreshing.commit import Committed, Outcome, commit, deliver_rest
from pgtrickle.service.refreshing.contents import Rows, replace_contents
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.refreshing.refresh import Basis, Prepared, Refresh
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.sinks.entry import find_copy
from pgtrickle.storage.alter_columns import ColumnChange, alter_columns, compare_columns
from pgtrickle.storage.apply import stored_columns
from pgtrickle.storage.state_tables import drop_state_tables, rename_state_tables

logger = logging.getLogger(__name__)

_END_SECONDS = 5.0

_REASON = "its query was replaced"

AlsoDone = Callable[[Connection, StreamTable], None]


def replace_query(
    runtime: Runtime,
    name: QualifiedName,
    query: str,
    *,
    search_path: str | None = None,
    refresh_mode: RefreshMode | None = None,
    also: AlsoDone | None = None,
) -> RefreshReport:
    """Let a stream table show another query: all at once, or not at all.

    ``search_path`` is where the query's names are looked for; None: on the user's path.
    ``also`` is called in the transaction in which the new query takes effect.
    """
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
        bounds = Bounds.of(runtime.settings)
        compiled = compile_query(connection, query, runtime.users_path(search_path), bounds)
        mode = refresh_mode or stream_table.refresh_mode
        _check_query(runtime, compiled, mode)
        if mode is RefreshMode.IMMEDIATE:
            check_immediate(connection, compiled, cdc_mode=stream_table.cdc_mode)
        circle = _rehearse(runtime, connection, stream_table, compiled, mode)
        successor = _declare(runtime, connection, stream_table, query, compiled, mode)
    try:
        replacement = _Replacement(runtime, stream_table, successor, compiled)
        if circle:
            report = replacement.close(circle, also)
        else:
            with _kept(runtime, successor):
                report = replacement.run(also)
    except BaseException:
        # Whatever stopped it, also Ctrl-C: the stream table is as it was.
        discard(runtime, successor)
        raise
    for one in (stream_table, successor):
        runtime.remembered.forget(one)
    try:
        with runtime.connection() as connection:
            until_free(runtime, connection, lambda: release_sources(connection), _END_SECONDS)
        drop_unused_slot(runtime)
    except TrickleError as error:
        # The new query is in force; what captures for nobody ends with the next one that ends.
        logger.warning("could not end captures that nobody needs", extra={"code": error.code})
    return report


def is_another_query(
    runtime: Runtime, stream_table: StreamTable, query: str, search_path: str | None = None
) -> bool:
    """Tell a query from the one that a stream table has, however that is written."""
    with runtime.connection() as connection:
        bounds = Bounds.of(runtime.settings)
        compiled = compile_query(connection, query, runtime.users_path(search_path), bounds)
    return compiled.binding.query.sql != stream_table.defining_query


def discard_abandoned(runtime: Runtime) -> None:
    """Drop the successors whose makers died before they took effect."""
    with runtime.connection() as connection:
        abandoned = list_abandoned(connection)
    for one in abandoned:
        discard(runtime, one)


def discard(runtime: Runtime, successor: StreamTable) -> None:
    """Drop a successor that takes no effect; if that is impossible now, it is done later."""
    runtime.remembered.forget(successor)
    with suppress(TrickleError):
        drop_stream_table(runtime, successor.name, cascade=False)


def _check_query(runtime: Runtime, compiled: Compiled, refresh_mode: RefreshMode) -> None:
    check_columns(compiled)
    check_polled(runtime.settings, compiled)
    check_refresh_mode(compiled, refresh_mode)


def _rehearse(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    compiled: Compiled,
    refresh_mode: RefreshMode,
) -> list[QualifiedName]:
    """Find out before the load whether anything stands against the new query.

    Returns the stream tables with which it would read itself, if it would and may.
    """
    with translated_errors(), connection.transaction(force_rollback=True):
        note_dependencies(connection, stream_table.id, compiled)
        circle = find_closed(connection, runtime.settings, stream_table, compiled, refresh_mode)
        change = _compare(connection, stream_table, compiled)
        alter_columns(connection, stream_table.name, change)
    return circle


def _compare(connection: Connection, stream_table: StreamTable, compiled: Compiled) -> ColumnChange:
    """Return how the columns change, unless stream tables read what is to go."""
    stored = stored_columns(connection, stream_table.name)
    change = compare_columns(stream_table.name, stored, compiled.columns)
    for dependent in list_dependents(connection, stream_table.relid):
        [read] = [
            one.columns_used
            for one in list_dependencies(connection, dependent.id)
            if one.source_relid == stream_table.relid
        ]
        missed = ", ".join(column for column in change.dropped if column in read)
        if missed:
            raise DependentsExistError(
                f'the stream table "{dependent.name}" reads columns of "{stream_table.name}"'
                f" that the new query does not have: {missed}",
                hint="Keep the columns, or replace the query of the reader first.",
            )
    return change


def _declare(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    query: str,
    compiled: Compiled,
    refresh_mode: RefreshMode,
) -> StreamTable:
    """Create the successor and its capture, ours from the first moment."""
    name = successor_name(stream_table.id)
    discard_abandoned(runtime)
    if find_stream_table(connection, name) is not None:
        raise LeaseHeldError(
            f'the query of "{stream_table.name}" is being replaced already',
            hint="Wait for that; what a process left that died is cleared away within a minute.",
        )

    immediate = refresh_mode is RefreshMode.IMMEDIATE

    def transaction() -> StreamTable:
        options = StreamTableOptions(
            schedule=stream_table.schedule,
            refresh_mode=RefreshMode.DIFFERENTIAL if immediate else refresh_mode,
            cdc_mode=stream_table.cdc_mode,
            max_delta_fraction=stream_table.max_delta_fraction,
            engine=EngineMode.POSTGRES if immediate else stream_table.engine,
        )
        successor = declare(connection, name, query, compiled, options)
        decide_durability(runtime, connection)
        insert_successor(connection, successor.id, runtime.settings.lease)
        return successor

    return until_free(runtime, connection, transaction)


@contextmanager
def _kept(runtime: Runtime, successor: StreamTable) -> Iterator[None]:
    """Show for the length of a block that the maker of a successor is alive."""

    def keep(connection: Connection) -> None:
        keep_successor(connection, successor.id, runtime.settings.lease)

    with repeated(runtime, "keep a successor", runtime.settings.lease_seconds / 3, keep):
        yield


@dataclass(slots=True)
class _Replacement:
    """The replacement of one query, whose successor has been declared."""

    runtime: Runtime
    stream_table: StreamTable
    successor: StreamTable
    compiled: Compiled

    def run(self, also: AlsoDone | None) -> RefreshReport:
        """Load the successor, then put it in the place of the stream table."""
        self._settle_capture()
        self._refresh_successor()
        with self._claimed_when_free() as own, keep_lease(self.runtime, own):
            # Not behind the contents that it replaces, which may have been refreshed meanwhile.
            self._refresh_successor()
            with self.runtime.connection() as writer:

                def switch() -> Committed:
                    committed = self._switch(writer, own)
                    if also is not None:
                        also(writer, get_stream_table(writer, self.stream_table.name))
                    return committed

                committed = until_free(self.runtime, writer, switch)
            deliver_rest(committed)
            return committed.report

    def close(self, circle: Sequence[QualifiedName], also: AlsoDone | None) -> RefreshReport:
        """Put the new query in force, through which the stream table comes to read itself."""
        self._settle_capture()
        closing = Closing(
            self.runtime, self.stream_table, self.successor, self.compiled, circle, self._alter
        )
        return closing.run(lambda: _kept(self.runtime, self.successor), also)

    def _settle_capture(self) -> None:
        wanted = self.successor.cdc_mode or parse_cdc_mode(self.runtime.settings.cdc_mode)
        sources = self.compiled.captured_columns().keys()
        settle_capture(self.runtime, sources, strict=wanted is CdcMode.WAL)

    def _refresh_successor(self) -> None:
        """Bring the successor up to date, with what it reads where that belongs together."""
        refresh_when_free(self.runtime, self.successor.name, initiated_by=InitiatedBy.INITIAL)
        with self.runtime.connection() as connection:
            self.successor = get_stream_table(connection, self.successor.name)

    @contextmanager
    def _claimed_when_free(self) -> Iterator[Lease]:
        """Hold the lease of the stream table itself, once whoever refreshes it is done."""
        with ExitStack() as stack:
            # Suspended or not: its contents are to change in any case.
            found, lease = when_free(
                lambda: stack.enter_context(
                    claimed(self.runtime, self.stream_table.name, InitiatedBy.INITIAL)
                )
            )
            if found.id != self.stream_table.id:
                raise StreamTableNotFoundError(
                    f'"{found.name}" was dropped and created anew meanwhile',
                    hint="Replace its query again, if you still want to.",
                )
            self.stream_table = found
            yield lease

    def _switch(self, writer: Connection, own: Lease) -> Committed:
        """Do all that is to become visible at once; it goes down in history as a refresh."""
        table = self.stream_table
        if table.refresh_mode is RefreshMode.IMMEDIATE:
            # Its writers follow no more; that locks the sources.
            drop_immediate(writer, table.id)
            table = replace(table, refresh_mode=self.successor.refresh_mode)
        refresh = Refresh.begin(self.runtime, table, own, InitiatedBy.MANUAL)
        prepared, basis = Prepared(refresh, self.compiled), self._basis(writer)
        with refresh.account.timed("apply"):
            self._alter(writer)
            rows = Rows.of_table(self.successor.name.sql, self.compiled.columns)
            written = replace_contents(writer, prepared, rows)
        drop_state_tables(writer, self.stream_table.id)
        rename_state_tables(writer, self.successor.id, self.stream_table.id)
        adopt_successor(writer, self.stream_table.id, self.successor.id)
        record_circles(writer)  # it may have left one
        decision = Decision(Action.REINITIALIZE, _REASON)
        with refresh.account.timed("commit"):
            committed = commit(writer, Outcome(prepared, decision, basis, written))
        if self.successor.needs_reinit:
            update_needs_reinit(writer, self.stream_table.id, needs_reinit=True)
        delete_stream_table(writer, self.successor.id)
        writer.execute(trusted(f"DROP TABLE {self.successor.name.sql}"))
        return committed

    def _alter(self, writer: Connection) -> None:
        """Give the table the columns of the new query."""
        change = _compare(writer, self.stream_table, self.compiled)
        alter_columns(writer, self.stream_table.name, change)
        if change:
            copy = find_copy(writer, self.stream_table)
            if copy is not None:
                copy.load_anew(writer)

    def _basis(self, writer: Connection) -> Basis:
        """Return what the rows of the successor rest on."""
        frontier, taken_at = self.successor.frontier, self.successor.data_timestamp
        if frontier is None or taken_at is None:
            raise InternalError(f'"{self.successor.name}" has no frontier after its load')
        return Basis(frontier, taken_at, find_plan(writer, self.successor.id) or {})
