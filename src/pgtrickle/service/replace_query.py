"""Replace the query of a stream table, which stays the same table: see docs/adr/0022.

The new query is first loaded beside the old contents, as a *successor*: a stream table like any
other, with capture and state of its own, which nobody sees.  The stream table goes on meanwhile.
Then one transaction turns the contents into those of the successor, by the difference, and hands
its state, frontier and definition over.  Whatever fails before that commit leaves the stream table
as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.algebra.nodes import Output
from pgtrickle.catalog.circles import record_circles
from pgtrickle.catalog.dependencies import list_dependencies, list_dependents
from pgtrickle.catalog.ducklake_sinks import find_sink, update_sink
from pgtrickle.catalog.leases import Lease
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
from pgtrickle.catalog.wal_capture import update_requested_cdc_mode
from pgtrickle.errors import (
    DependentsExistError,
    InternalError,
    LeaseHeldError,
    StreamTableNotFoundError,
    TrickleError,
)
from pgtrickle.model.cdc_mode import CdcMode, parse_cdc_mode
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, StreamTable
from pgtrickle.refresh.decide import Decision
from pgtrickle.service.capture_mode import settle_capture
from pgtrickle.service.capture_sources import note_dependencies, release_sources
from pgtrickle.service.claim import claimed
from pgtrickle.service.close_circle import Closing, find_closed
from pgtrickle.service.compile import Compiled, compile_query
from pgtrickle.service.control import decide_durability
from pgtrickle.service.create import check_columns, declare
from pgtrickle.service.drop import drop_stream_table
from pgtrickle.service.lake_sink import track
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.patience import until_free
from pgtrickle.service.polled_sources import check_polled
from pgtrickle.service.refresh import Refresh
from pgtrickle.service.refresh_stream_table import refresh_when_free, when_free
from pgtrickle.service.repeat import repeated
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.snapshot import Snapshot
from pgtrickle.service.wal_slot import drop_unused_slot
from pgtrickle.sql.scalars import column_scalar
from pgtrickle.storage.alter_columns import ColumnChange, alter_columns, compare_columns
from pgtrickle.storage.apply import (
    Applied,
    apply_result,
    ensure_row_index,
    load_result,
    stored_columns,
    weigh_result,
)
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
        seconds = runtime.settings.planning_timeout_seconds
        compiled = compile_query(connection, query, runtime.users_path(search_path), seconds)
        mode = refresh_mode or stream_table.refresh_mode
        _check_query(runtime, compiled, mode)
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
    _forget(runtime, stream_table, successor)
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
        seconds = runtime.settings.planning_timeout_seconds
        compiled = compile_query(connection, query, runtime.users_path(search_path), seconds)
    return compiled.binding.query.sql != stream_table.defining_query


def discard_abandoned(runtime: Runtime) -> None:
    """Drop the successors whose makers died before they took effect."""
    with runtime.connection() as connection:
        abandoned = list_abandoned(connection)
    for one in abandoned:
        discard(runtime, one)


def discard(runtime: Runtime, successor: StreamTable) -> None:
    """Drop a successor that takes no effect; if that is impossible now, it is done later."""
    _forget(runtime, successor)
    with suppress(TrickleError):
        drop_stream_table(runtime, successor.name, cascade=False)


def _check_query(runtime: Runtime, compiled: Compiled, refresh_mode: RefreshMode) -> None:
    check_columns(compiled)
    check_polled(runtime.settings, compiled)
    if compiled.refusal is not None and refresh_mode is RefreshMode.DIFFERENTIAL:
        raise compiled.refusal


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

    def transaction() -> StreamTable:
        fraction, schedule = stream_table.max_delta_fraction, stream_table.schedule
        declare(connection, name, query, compiled, schedule, refresh_mode, fraction)
        successor = get_stream_table(connection, name)
        if stream_table.cdc_mode is not None:
            update_requested_cdc_mode(connection, successor.id, stream_table.cdc_mode)
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


def _forget(runtime: Runtime, *stream_tables: StreamTable) -> None:
    """Forget what this process knows of queries that are not in force any more."""
    for one in stream_tables:
        for key in [key for key in list(runtime.compiled) if key[0] == one.id]:
            runtime.compiled.pop(key, None)
        runtime.compiled_for.pop(one.id, None)
        runtime.shapes_compared.pop(one.id, None)
        runtime.cost_memories.pop(one.id, None)


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

                def switch() -> tuple[Refresh, RefreshReport]:
                    refresh = self._refresh(writer, own)
                    report = self._switch(writer, refresh)
                    if also is not None:
                        also(writer, get_stream_table(writer, self.stream_table.name))
                    return refresh, report

                refresh, report = until_free(self.runtime, writer, switch)
            refresh.deliver_left()
            return report

    def close(self, circle: Sequence[QualifiedName], also: AlsoDone | None) -> RefreshReport:
        """Put the new query in force, through which the stream table comes to read itself."""
        self._settle_capture()

        def alter(writer: Connection) -> None:
            change = _compare(writer, self.stream_table, self.compiled)
            alter_columns(writer, self.stream_table.name, change)
            if change:
                self._let_sink_load(writer)

        closing = Closing(
            self.runtime, self.stream_table, self.successor, self.compiled, circle, alter
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

    def _refresh(self, writer: Connection, own: Lease) -> Refresh:
        """Return the refresh as which the replacement goes down in history."""
        refresh = Refresh(self.runtime, self.stream_table, own, InitiatedBy.MANUAL)
        refresh.decision = Decision(Action.REINITIALIZE, _REASON)
        refresh.plan = find_plan(writer, self.successor.id) or {}
        return refresh

    def _switch(self, writer: Connection, refresh: Refresh) -> RefreshReport:
        """Do all that is to become visible at once."""
        with refresh.timed("apply"):
            applied = self._apply(writer, refresh)
        drop_state_tables(writer, self.stream_table.id)
        rename_state_tables(writer, self.successor.id, self.stream_table.id)
        adopt_successor(writer, self.stream_table.id, self.successor.id)
        record_circles(writer)  # it may have left one
        with refresh.timed("commit"):
            report = refresh.commit(writer, self._snapshot(writer), self.compiled, applied)
        if self.successor.needs_reinit:
            update_needs_reinit(writer, self.stream_table.id, needs_reinit=True)
        delete_stream_table(writer, self.successor.id)
        writer.execute(f"DROP TABLE {self.successor.name.sql}".encode())
        return report

    def _apply(self, writer: Connection, refresh: Refresh) -> Applied:
        """Turn the rows of the stream table into those of the successor."""
        name, columns = self.stream_table.name, self.compiled.columns
        change = _compare(writer, self.stream_table, self.compiled)
        alter_columns(writer, name, change)
        if change:
            self._let_sink_load(writer)
        else:
            refresh.tracking = track(writer, self.stream_table, self.compiled)
        outputs = [Output(one.name, column_scalar(one.name), one.type) for one in columns]
        source = self.successor.name.sql
        applied = load_result(writer, name, outputs, source, None, weight="1")
        ensure_row_index(writer, name, columns)
        if applied is None:
            weigh_result(writer, outputs, source, None, weight="1", less=name)
            applied = apply_result(writer, name, columns, refresh.tracking)
        else:
            refresh.tracking = None  # filled from nothing: a sink takes all of it
        writer.execute(f"ANALYZE {name.sql}".encode())
        return applied

    def _let_sink_load(self, writer: Connection) -> None:
        """Let a copy in the lake be made anew, because it is to have other columns."""
        sink = find_sink(writer, self.stream_table.id)
        if sink is not None:
            update_sink(writer, replace(sink, needs_load=True))

    def _snapshot(self, writer: Connection) -> Snapshot:
        """Return the moment that the rows of the successor belong to."""
        frontier, taken_at = self.successor.frontier, self.successor.data_timestamp
        if frontier is None or taken_at is None:
            raise InternalError(f'"{self.successor.name}" has no frontier after its load')
        return Snapshot(writer, frontier, "", taken_at)
