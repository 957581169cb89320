"""Give a stream table a query that closes a circle: see docs/adr/0023.

A load beside the old contents does not help here: the result of the new query depends on the other
members of the circle, which depend on it. So one transaction does everything: it puts the new query
in force, computes the least fixpoint of the circle, and applies the difference to each member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.binding.bind import bind_query
from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.circles import list_circles, record_circles
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.stream_tables import delete_stream_table, get_stream_table
from pgtrickle.catalog.successors import adopt_successor
from pgtrickle.errors import (
    NotMonotoneError,
    ServerBusyError,
    StreamTableNotFoundError,
    TrickleError,
)
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.model.text.trusted import trusted
from pgtrickle.plan.decide import Decision
from pgtrickle.plan.stages import looked_up_columns
from pgtrickle.service.capturing.sources import refused_circle
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled, compile_stream_table, set_search_path
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lock_waits import try_again
from pgtrickle.service.refreshing.commit import Committed, deliver_rest
from pgtrickle.service.refreshing.findings import look
from pgtrickle.service.refreshing.groups.circle import CircleMember, apply_fixpoint
from pgtrickle.service.refreshing.groups.shared_transaction import open_together, rolled_back
from pgtrickle.service.refreshing.prepare import prepare
from pgtrickle.service.refreshing.refresh import Prepared, Refresh
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot
from pgtrickle.service.refreshing.start_again import StartAgainError
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.settings import Settings
from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.circles.monotone import find_obstacle
from pgtrickle.sql.text.parse_bound import parse_bound
from pgtrickle.storage.state_tables import (
    create_state_tables,
    drop_state_tables,
    rename_state_tables,
)

# After a delete, a circle is not maintained by a delta: it cannot keep the promise of DIFFERENTIAL,
# and it cannot be computed inside the statement of a writer.
_MODES = (RefreshMode.AUTO, RefreshMode.FULL)


def find_closed(
    connection: Connection,
    settings: Settings,
    stream_table: StreamTable,
    compiled: Compiled,
    refresh_mode: RefreshMode,
) -> list[QualifiedName]:
    """Return the circle that a stream table belongs to with its current dependencies.

    Raises ST109 if circles are not allowed, ST110 if a member cannot be in one.
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
                found = compile_stream_table(connection, member, Bounds.of(settings))
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
    for volatile in binding.volatile:
        yield str(volatile)
    if binding.time_dependent:
        yield "a function of the current time"
    for function in binding.watchers.values():
        yield f'the function "{function}", which reads a table,'
    if not _is_rewritten_exactly(connection, binding.query):
        yield "this syntax, which cannot be written down again,"


def _is_rewritten_exactly(connection: Connection, query: BoundQuery) -> bool:
    """Return whether PostgreSQL reads our rewritten text as the same query."""
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

    def run(
        self,
        keep: Callable[[], AbstractContextManager[None]],
        also: Callable[[Connection, StreamTable], None] | None,
    ) -> RefreshReport:
        """Put the new query in force; ``keep`` keeps the successor until that begins.

        If another session writes the catalog row of a member meanwhile, this starts again.
        """
        return try_again(lambda: self._attempt(keep, also))

    def _attempt(
        self,
        keep: Callable[[], AbstractContextManager[None]],
        also: Callable[[Connection, StreamTable], None] | None,
    ) -> RefreshReport:
        with ExitStack() as stack:
            with keep():
                members = [self._prepare(one) for one in when_free(lambda: self._claim(stack))]
            # From here on the lock on its row keeps the successor.
            with (
                self.runtime.connection() as connection,
                translated_errors(),
                rolled_back(connection),
            ):
                snapshot = open_together(connection, [one.refresh for one in members])
                committed = self._switch(snapshot, members)
                if also is not None:
                    also(connection, get_stream_table(connection, self.stream_table.name))
                connection.commit()
            for one in committed:
                deliver_rest(one)
        [report] = [
            one.report for one in committed if one.prepared.stream_table.id == self.stream_table.id
        ]
        return report

    def _claim(self, stack: ExitStack) -> list[Refresh]:
        """Hold the leases of all members, or of none."""
        refreshes = []
        with ExitStack() as attempt:
            for name in self.names:
                # Suspended or not: the contents of the stream table with the new query change.
                own = name == self.stream_table.name
                by = InitiatedBy.INITIAL if own else InitiatedBy.MANUAL
                found, lease = attempt.enter_context(claimed(self.runtime, name, by))
                if own and found.id != self.stream_table.id:
                    raise StreamTableNotFoundError(
                        f'"{found.name}" was dropped and created anew meanwhile',
                        hint="Replace its query again, if you still want to.",
                    )
                refreshes.append(Refresh.begin(self.runtime, found, lease, InitiatedBy.MANUAL))
            stack.push(attempt.pop_all())
        return refreshes

    def _prepare(self, refresh: Refresh) -> Prepared:
        if refresh.stream_table.id == self.stream_table.id:
            return Prepared(refresh, self.compiled)
        return prepare(refresh)

    def _switch(self, snapshot: Snapshot, members: Sequence[Prepared]) -> list[Committed]:
        """Make all the changes that become visible at once."""
        writer, own = snapshot.connection, self.stream_table.id
        adopt_successor(writer, own, self.successor.id)
        drop_state_tables(writer, own)
        rename_state_tables(writer, self.successor.id, own)
        delete_stream_table(writer, self.successor.id)
        writer.execute(trusted(f"DROP TABLE {self.successor.name.sql}"))
        self.alter(writer)
        mode = get_stream_table(writer, self.stream_table.name).refresh_mode
        circle = find_closed(writer, self.runtime.settings, self.stream_table, self.compiled, mode)
        if circle != list(self.names):
            raise _altered()
        record_circles(writer)
        try:
            return apply_fixpoint(snapshot, [self._begin(snapshot, one) for one in members])
        except StartAgainError:
            raise _altered() from None

    def _begin(self, snapshot: Snapshot, prepared: Prepared) -> CircleMember:
        """Find the basis of the new contents, and the reason why they are computed anew."""
        table, writer = prepared.stream_table, snapshot.connection
        prepared = replace(prepared, dependencies=list_dependencies(writer, table.id))
        buffers = BufferView(writer, snapshot.name)
        basis = look(prepared, snapshot, buffers, priced=False).basis
        reason = "its query was replaced"
        if table.id != self.stream_table.id:
            reason = f"the query of {self.stream_table.name} was replaced"
            # The state of operators is no longer maintained.
            staged = prepared.compiled.staged
            drop_state_tables(writer, table.id)
            create_state_tables(writer, table.id, staged, looked_up_columns(staged))
        return CircleMember(prepared, basis, Decision(Action.REINITIALIZE, reason))


def _altered() -> ServerBusyError:
    return ServerBusyError(
        "the members of a circle, or what they read, were altered while it was being closed",
        hint="Replace the query again.",
    )
