"""Give a stream table a query through which it comes to read itself: see docs/adr/0023.

No load beside the old contents is of use here: what the new query shows depends on what the other
members of the circle show, which depends on it.  So one transaction does all: it puts the new
query in force, computes the least fixpoint of the circle, and applies what differs to each member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.catalog.bind import bind_query
from pgtrickle.catalog.circles import list_circles, record_circles
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.leases import Lease
from pgtrickle.catalog.stream_tables import delete_stream_table, get_stream_table
from pgtrickle.catalog.successors import adopt_successor
from pgtrickle.errors import (
    NotMonotoneError,
    ServerBusyError,
    StreamTableNotFoundError,
    TrickleError,
)
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.search_path import OWN_PATH
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, StreamTable
from pgtrickle.refresh.decide import Decision
from pgtrickle.refresh.stages import looked_up_columns
from pgtrickle.service.capture_sources import refused_circle
from pgtrickle.service.circle import CircleMember, CircleRefresh
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled, compile_stream_table, set_search_path
from pgtrickle.service.refresh import ReadInVainError, Refresh
from pgtrickle.service.refresh_stream_table import when_free
from pgtrickle.service.refresh_together import drop_temporary_tables, open_together, rolled_back
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.snapshot import BufferView, Snapshot
from pgtrickle.settings import Settings
from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.monotone import find_obstacle
from pgtrickle.sql.parse_bound import parse_bound
from pgtrickle.storage.state_tables import (
    create_state_tables,
    drop_state_tables,
    rename_state_tables,
)

# A delta is not what a circle is maintained by after a delete: DIFFERENTIAL would be a promise
# that it cannot keep, and nothing of it can happen inside the statement of a writer.
_MODES = (RefreshMode.AUTO, RefreshMode.FULL)
_ATTEMPTS = 5


def find_closed(
    connection: Connection,
    settings: Settings,
    stream_table: StreamTable,
    compiled: Compiled,
    refresh_mode: RefreshMode,
) -> list[QualifiedName]:
    """Return the circle that a stream table belongs to with the dependencies it has now.

    Raises ST109 where circles are not allowed, ST110 where a member cannot be in one.
    """
    for circle in list_circles(connection):
        if stream_table.id not in {one.id for one in circle}:
            continue
        if not settings.allow_circular:
            raise refused_circle(circle)
        for one in circle:
            member = get_stream_table(connection, one.name)
            if one.id == stream_table.id:
                _check_member(connection, member, compiled, refresh_mode)
            else:
                found = compile_stream_table(connection, member, settings.planning_timeout_seconds)
                _check_member(connection, member, found, member.refresh_mode)
        return [one.name for one in circle]
    return []


def check_mode(stream_table: StreamTable, refresh_mode: RefreshMode) -> None:
    """Raise ST110 for a refresh mode that no member of a circle can have."""
    if refresh_mode not in _MODES:
        raise NotMonotoneError(
            f'"{stream_table.name}" cannot be in a circle: its refresh mode is'
            f" {refresh_mode.value}",
            hint="Choose AUTO, which follows inserts and starts anew after anything else, or FULL.",
        )


def _check_member(
    connection: Connection, member: StreamTable, compiled: Compiled, refresh_mode: RefreshMode
) -> None:
    check_mode(member, refresh_mode)
    for construct in _obstacles(connection, compiled):
        raise NotMonotoneError(
            f'"{member.name}" cannot be in a circle: {construct} is not monotone',
            detail="In a circle, new rows of a source may only ever add rows, and no row twice.",
            hint="Use joins, filters, EXISTS and IN, with UNION or SELECT DISTINCT at the top.",
        )


def _obstacles(connection: Connection, compiled: Compiled) -> Iterator[str]:
    binding = compiled.binding
    if (construct := find_obstacle(binding.query)) is not None:
        yield construct
    for refusal in binding.refusals:
        yield refusal.construct
    if binding.time_dependent:
        yield "a function of the current time"
    if not _is_rewritten_exactly(connection, binding.query):
        yield "this syntax, which cannot be written down again,"


def _is_rewritten_exactly(connection: Connection, query: BoundQuery) -> bool:
    """Tell whether a query means the same when it was read and written: PostgreSQL decides."""
    views = (one.definition for one in query.relations.values() if one.definition is not None)
    with connection.transaction(force_rollback=True):
        set_search_path(connection, OWN_PATH)
        for sql in (query.sql, *views):
            written = parse_bound(sql).sql(dialect="postgres")
            try:
                one, other = (bind_query(connection, text).query.sql for text in (sql, written))
            except TrickleError:
                return False
            if one != other:
                return False
    return True


@dataclass(slots=True)
class Closing:
    """The replacement of a query by one that closes a circle, whose successor is declared."""

    runtime: Runtime
    stream_table: StreamTable
    successor: StreamTable
    compiled: Compiled
    names: Sequence[QualifiedName]  # of all members
    alter: Callable[[Connection], None]  # gives the table the columns of the new query
    refreshes: list[Refresh] = field(default_factory=list)

    def run(
        self,
        keep: Callable[[], AbstractContextManager[None]],
        also: Callable[[Connection, StreamTable], None] | None,
    ) -> RefreshReport:
        """Put the new query in force; ``keep`` keeps the successor until that begins.

        Whoever notes something about a member meanwhile makes this start again.
        """
        for _ in range(_ATTEMPTS - 1):
            with suppress(ServerBusyError):
                return self._attempt(keep, also)
        return self._attempt(keep, also)

    def _attempt(
        self,
        keep: Callable[[], AbstractContextManager[None]],
        also: Callable[[Connection, StreamTable], None] | None,
    ) -> RefreshReport:
        with ExitStack() as stack:
            with keep():
                leases = when_free(lambda: self._claim(stack))
                compiled = {one.stream_table.id: self._prepare(one) for one in self.refreshes}
            # From here on the successor is kept by the lock on its row.
            with (
                self.runtime.connection() as connection,
                translated_errors(),
                rolled_back(connection),
            ):
                snapshot = open_together(connection, leases, self.names)
                reports = self._switch(snapshot, compiled)
                if also is not None:
                    also(connection, get_stream_table(connection, self.stream_table.name))
                connection.commit()
            for refresh in self.refreshes:
                refresh.deliver_left()
        return reports[self.stream_table.id]

    def _claim(self, stack: ExitStack) -> list[Lease]:
        """Hold the leases of all members, or of none."""
        self.refreshes = []
        with ExitStack() as attempt:
            for name in self.names:
                # Suspended or not: the contents of the one with a new query change in any case.
                own = name == self.stream_table.name
                by = InitiatedBy.INITIAL if own else InitiatedBy.MANUAL
                found, lease = attempt.enter_context(claimed(self.runtime, name, by))
                if own and found.id != self.stream_table.id:
                    raise StreamTableNotFoundError(
                        f'"{found.name}" was dropped and created anew meanwhile',
                        hint="Replace its query again, if you still want to.",
                    )
                self.refreshes.append(Refresh(self.runtime, found, lease, InitiatedBy.MANUAL))
            stack.push(attempt.pop_all())
        return [one.lease for one in self.refreshes]

    def _prepare(self, refresh: Refresh) -> Compiled:
        if refresh.stream_table.id == self.stream_table.id:
            return self.compiled
        return refresh.prepare(again=False)[0]

    def _switch(
        self, snapshot: Snapshot, compiled: dict[int, Compiled]
    ) -> dict[int, RefreshReport]:
        """Do all that is to become visible at once."""
        writer, own = snapshot.connection, self.stream_table.id
        adopt_successor(writer, own, self.successor.id)
        drop_state_tables(writer, own)
        rename_state_tables(writer, self.successor.id, own)
        delete_stream_table(writer, self.successor.id)
        writer.execute(f"DROP TABLE {self.successor.name.sql}".encode())
        self.alter(writer)
        mode = get_stream_table(writer, self.stream_table.name).refresh_mode
        circle = find_closed(writer, self.runtime.settings, self.stream_table, self.compiled, mode)
        if circle != list(self.names):
            raise _altered()
        record_circles(writer)
        members = [
            CircleMember(
                one, compiled[one.stream_table.id], list_dependencies(writer, one.stream_table.id)
            )
            for one in self.refreshes
        ]
        for member in members:
            self._begin(snapshot, member)
        try:
            reports = CircleRefresh(
                self.runtime, snapshot, members, drop_temporary_tables
            ).execute()
        except ReadInVainError:
            raise _altered() from None
        return {
            one.stream_table.id: report for one, report in zip(self.refreshes, reports, strict=True)
        }

    def _begin(self, snapshot: Snapshot, member: CircleMember) -> None:
        """Note what a later refresh compares its sources with, and say why this one starts anew."""
        refresh = member.refresh
        table, writer = refresh.stream_table, snapshot.connection
        buffers = BufferView(writer, snapshot.name)
        if (
            refresh.look(snapshot, buffers, member.compiled, member.dependencies, priced=False)
            is None
        ):
            raise _altered()
        reason = "its query was replaced"
        if table.id != self.stream_table.id:
            reason = f"the query of {self.stream_table.name} was replaced"
            # Nothing follows the changes in the state of operators any more.
            staged = member.compiled.staged
            drop_state_tables(writer, table.id)
            create_state_tables(writer, table.id, staged, looked_up_columns(staged))
        refresh.decision = Decision(Action.REINITIALIZE, reason)


def _altered() -> ServerBusyError:
    return ServerBusyError(
        "the members of a circle, or what they read, were altered while it was being closed",
        hint="Replace the query again.",
    )
