"""Refresh stream tables at one moment, in one transaction: diamonds (ADR 0017), circles (0023)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from psycopg import Connection

from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.circles import count_members
from pgtrickle.catalog.dependencies import Dependency
from pgtrickle.catalog.leases import Lease, check_lease
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.catalog.wal_capture import list_wal_sources
from pgtrickle.errors import ServerBusyError, TrickleError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, StreamTable
from pgtrickle.service.capture_mode import LOSSES, hand_back
from pgtrickle.service.capture_sources import renew_captures
from pgtrickle.service.circle import CircleMember, CircleRefresh
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled
from pgtrickle.service.facts import captured
from pgtrickle.service.refresh import Refresh
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.snapshot import BufferView, Snapshot, open_buffers
from pgtrickle.service.stage_inputs import TooMuchUnseenError
from pgtrickle.service.trim import trim_sources
from pgtrickle.session import BEGIN_SNAPSHOT

AfterRefresh = Callable[[Snapshot, Compiled], None]

_ATTEMPTS = 5  # to meet sources that nobody alters between the check and the snapshot


def refresh_together(
    runtime: Runtime,
    names: Sequence[QualifiedName],
    *,
    initiated_by: InitiatedBy,
    full: QualifiedName | None = None,
    initial: QualifiedName | None = None,
    after: AfterRefresh | None = None,
) -> list[RefreshReport]:
    """Refresh stream tables, given in dependency order, to one frontier and commit them at once.

    ``full`` is one that is to be recomputed, ``initial`` one that is loaded for the first time.
    ``after`` is called when the last has its new contents and the snapshot can still be read.
    If one fails, none has changed.
    """
    with ExitStack() as stack:
        members = []
        for name in names:
            by = InitiatedBy.INITIAL if name == initial else initiated_by
            stream_table, lease = stack.enter_context(claimed(runtime, name, by))
            members.append(_Member(runtime, stream_table, lease, by, full=name == full))
        group = _Group(runtime, members, after)
        with group.recorded():
            reports = group.run()
    if any(report.action is not Action.NO_DATA for report in reports):
        # Without a lease: to each member those of the others would look like rivals.
        trim_sources(runtime, group.sources)
    return reports


@dataclass(slots=True)
class _Member:
    """One of the group, and its refresh as far as it has come."""

    runtime: Runtime
    stream_table: StreamTable
    lease: Lease
    initiated_by: InitiatedBy
    full: bool
    refresh: Refresh = field(init=False)
    compiled: Compiled = field(init=False)
    dependencies: list[Dependency] = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget what was found out so far."""
        self.refresh = Refresh(
            self.runtime,
            self.stream_table,
            self.lease,
            self.initiated_by,
            requested_full=self.full,
        )

    def prepare(self, *, again: bool) -> None:
        """Make sure that the query is compiled and captured as its sources are now."""
        self.compiled, self.dependencies = self.refresh.prepare(again=again)
        self.stream_table = self.refresh.stream_table

    def read_again(self, connection: Connection) -> None:
        """Take notice of what preparing has changed."""
        self.stream_table = get_stream_table(connection, self.stream_table.name)
        self.refresh.stream_table = self.stream_table

    @property
    def sources(self) -> list[int]:
        """The relids of the sources with a buffer."""
        return [one.source_relid for one in captured(self.dependencies)]

    @property
    def of_circle(self) -> CircleMember:
        """The same as a member of its circle."""
        return CircleMember(self.refresh, self.compiled, self.dependencies)


@dataclass(slots=True)
class _Group:
    """Stream tables that are being refreshed together."""

    runtime: Runtime
    members: list[_Member]
    after: AfterRefresh | None = None
    current: _Member | None = None

    def run(self) -> list[RefreshReport]:
        """Refresh all of them; the caller holds their leases."""
        for attempt in range(_ATTEMPTS):
            self._prepare(again=attempt > 0)
            if self._captured_from_log():
                return self._one_after_another()
            try:
                reports = self._attempt()
            except TooMuchUnseenError:
                return self._one_after_another()
            if reports is not None:
                for member in self.members:
                    member.refresh.deliver_left()
                return reports
        raise _altered_again()

    @property
    def sources(self) -> list[int]:
        """The relids of all sources with a buffer."""
        return sorted({relid for member in self.members for relid in member.sources})

    def _prepare(self, *, again: bool) -> None:
        unfit = self.current
        for member in self.members:
            if again and member is not unfit:
                member.begin()
            self.current = member
            member.prepare(again=again)
        self._read_circles()
        renew_captures(self.runtime, self.sources)

    def _read_circles(self) -> None:
        """See who belongs to a circle now, and that nobody of it is missing here."""
        if all(member.stream_table.circle is None for member in self.members):
            return
        with self.runtime.connection() as connection:
            for member in self.members:
                member.read_again(connection)
            for step in self._steps:
                circle = step[0].stream_table.circle
                if circle is not None and count_members(connection, circle) != len(step):
                    raise ServerBusyError(
                        f'others have come to belong to the circle of "{step[0].stream_table.name}"'
                        " meanwhile",
                        hint="Refresh it again: all of them are refreshed together.",
                    )

    @property
    def _steps(self) -> list[list[_Member]]:
        """What is refreshed at a time: a stream table, or all members of a circle."""
        steps: dict[object, list[_Member]] = {}
        for member in self.members:
            circle = member.stream_table.circle
            steps.setdefault(member.stream_table.name if circle is None else circle, []).append(
                member
            )
        return list(steps.values())

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Put a failure on record with the member that met it."""
        try:
            yield
        except TrickleError:
            if self.current is None:
                raise
            with self.current.refresh.recorded():
                raise

    def _captured_from_log(self) -> bool:
        with self.runtime.connection() as connection:
            return any(one.relid in self.sources for one in list_wal_sources(connection))

    def _attempt(self) -> list[RefreshReport] | None:
        """Refresh all, or return None if one must be prepared again."""
        reports: list[RefreshReport] = []
        changed: set[int] = set()
        with self.runtime.connection() as connection, rolled_back(connection):
            snapshot = open_together(
                connection,
                [member.lease for member in self.members],
                [member.stream_table.name for member in self.members],
            )
            buffers = BufferView(connection, snapshot.name)
            for step in self._steps:
                found = self._step(snapshot, buffers, step, frozenset(changed))
                if found is None:
                    return None
                reports += found
                changed |= {
                    member.stream_table.relid
                    for member, report in zip(step, found, strict=True)
                    if report.rows_inserted or report.rows_deleted
                }
                drop_temporary_tables(connection)
            if self.after is not None:
                self.after(snapshot, self.members[-1].compiled)
            connection.commit()
        return reports

    def _step(
        self, snapshot: Snapshot, buffers: BufferView, step: list[_Member], changed: frozenset[int]
    ) -> list[RefreshReport] | None:
        """Refresh a stream table or a circle, or return None if one must be prepared again."""
        for member in step:
            member.refresh.changed_before = changed
        if step[0].stream_table.circle is not None:
            return self._circle(snapshot, step).run(buffers)
        [member] = step
        self.current, refresh = member, member.refresh
        report = refresh.refresh_to(snapshot, buffers, member.compiled, member.dependencies)
        return None if report is None else [report]

    def _circle(self, snapshot: Snapshot, step: list[_Member]) -> CircleRefresh:
        def meet(refresh: Refresh) -> None:
            self.current = next(one for one in step if one.refresh is refresh)

        members = [one.of_circle for one in step]
        return CircleRefresh(self.runtime, snapshot, members, drop_temporary_tables, meet)

    def _one_after_another(self) -> list[RefreshReport]:
        """Refresh each by itself, where the transaction of all could not see what it must."""
        reports = []
        for step in self._steps:
            for member in step:
                member.begin()
            last = self.members[-1] in step
            after = self.after if last else None
            if step[0].stream_table.circle is not None:
                reports += self._circle_alone(step, after)
                continue
            [member] = step
            self.current = member
            member.refresh.hold_snapshot = after is not None
            reports.append(member.refresh.run(after))
        return reports

    def _circle_alone(self, step: list[_Member], after: AfterRefresh | None) -> list[RefreshReport]:
        """Refresh a circle in a transaction of its own, whatever captures what it reads."""
        sources = sorted({relid for member in step for relid in member.sources})
        for attempt in range(_ATTEMPTS):
            for member in step:
                self.current = member
                member.prepare(again=attempt > 0)
            try:
                with self.runtime.connection() as connection, rolled_back(connection):
                    snapshot = open_together(
                        connection,
                        [member.lease for member in step],
                        [member.stream_table.name for member in step],
                    )
                    with open_buffers(self.runtime, snapshot, sources) as buffers:
                        reports = self._circle(snapshot, step).run(buffers)
                    if reports is not None:
                        drop_temporary_tables(connection)
                        if after is not None:
                            after(snapshot, step[-1].compiled)
                        connection.commit()
                        return reports
            except LOSSES as error:
                hand_back(self.runtime, error)
        raise _altered_again()


def _altered_again() -> ServerBusyError:
    return ServerBusyError(
        "the sources of a group of stream tables are being altered again and again",
        hint="Refresh again when that is done.",
    )


@contextmanager
def rolled_back(connection: Connection) -> Iterator[None]:
    """Leave no transaction open, whatever happens."""
    try:
        yield
    finally:
        if not connection.closed:
            connection.rollback()


_GET_OWN = (
    "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text, pg_catalog.pg_export_snapshot(),"
    " pg_catalog.clock_timestamp()"
)


def open_together(
    connection: Connection, leases: Sequence[Lease], names: Sequence[QualifiedName]
) -> Snapshot:
    """Begin the transaction that reads and writes, with a frontier that sees what it writes.

    The tables are locked before its snapshot is taken: what it is to find on them before it writes,
    such as a trigger of others, would be hidden from it otherwise.
    """
    listed = ", ONLY ".join(name.sql for name in sorted(names, key=str))
    connection.execute(BEGIN_SNAPSHOT)
    connection.execute(f"LOCK TABLE ONLY {listed} IN ROW EXCLUSIVE MODE".encode())
    frontier = get_frontier(connection)
    [(own, name, taken_at)] = connection.execute(_GET_OWN).fetchall()
    # A lease that is renewed later could no longer be locked: see ADR 0017.
    for lease in sorted(leases, key=lambda one: one.stream_table_id):
        check_lease(connection, lease.stream_table_id, lease.token)
    frontier = replace(frontier, snapshot=frontier.snapshot.with_own(int(own)))
    return Snapshot(connection, frontier, name, taken_at, writes=True)


_LIST_TEMPORARY = """
    SELECT pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = pg_catalog.pg_my_temp_schema() AND c.relkind = 'r'
       AND c.relname <> ALL (%(but)s::pg_catalog.text[])
"""


def drop_temporary_tables(connection: Connection, but: Collection[str] = ()) -> None:
    """Drop what a member staged: the next one uses the same names."""
    names = [name for (name,) in connection.execute(_LIST_TEMPORARY, {"but": list(but)})]
    if names:
        listed = ", ".join(f"pg_temp.{name}" for name in names)
        connection.execute(f"DROP TABLE {listed}".encode())
