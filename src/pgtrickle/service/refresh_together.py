"""Refresh the members of a diamond at one moment, in one transaction: see docs/adr/0017."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from psycopg import Connection

from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.dependencies import Dependency
from pgtrickle.catalog.leases import Lease, check_lease
from pgtrickle.catalog.wal_capture import list_wal_sources
from pgtrickle.errors import ServerBusyError, TrickleError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, StreamTable
from pgtrickle.service.capture_sources import renew_captures
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled
from pgtrickle.service.facts import captured
from pgtrickle.service.refresh import Refresh
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.snapshot import BufferView, Snapshot
from pgtrickle.service.stage_inputs import TooMuchUnseenError
from pgtrickle.service.trim import trim_sources

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

    @property
    def sources(self) -> list[int]:
        """The relids of the sources with a buffer."""
        return [one.source_relid for one in captured(self.dependencies)]


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
                return reports
        raise ServerBusyError(
            "the sources of a group of stream tables are being altered again and again",
            hint="Refresh again when that is done.",
        )

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
        renew_captures(self.runtime, self.sources)

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
        with self.runtime.connection() as connection, _rolled_back(connection):
            snapshot = _open(connection, [member.lease for member in self.members])
            buffers = BufferView(connection, snapshot.name)
            for member in self.members:
                self.current, refresh = member, member.refresh
                refresh.changed_before = frozenset(changed)
                report = refresh.refresh_to(snapshot, buffers, member.compiled, member.dependencies)
                if report is None:
                    return None
                reports.append(report)
                if report.rows_inserted or report.rows_deleted:
                    changed.add(member.stream_table.relid)
                _drop_temporary_tables(connection)
            if self.after is not None:
                self.after(snapshot, self.members[-1].compiled)
            connection.commit()
        return reports

    def _one_after_another(self) -> list[RefreshReport]:
        """Refresh each by itself, where the transaction of all could not see what it must."""
        reports = []
        for member in self.members:
            self.current = member
            member.begin()
            last = member is self.members[-1]
            member.refresh.hold_snapshot = last and self.after is not None
            reports.append(member.refresh.run(self.after if last else None))
        return reports


@contextmanager
def _rolled_back(connection: Connection) -> Iterator[None]:
    """Leave no transaction open, whatever happens."""
    try:
        yield
    finally:
        if not connection.closed:
            connection.rollback()


_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_GET_OWN = (
    "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text, pg_catalog.pg_export_snapshot(),"
    " pg_catalog.clock_timestamp()"
)


def _open(connection: Connection, leases: Sequence[Lease]) -> Snapshot:
    """Begin the transaction that reads and writes, with a frontier that sees what it writes."""
    connection.execute(_BEGIN)
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
"""


def _drop_temporary_tables(connection: Connection) -> None:
    """Drop what a member staged: the next one uses the same names."""
    names = [name for (name,) in connection.execute(_LIST_TEMPORARY)]
    if names:
        listed = ", ".join(f"pg_temp.{name}" for name in names)
        connection.execute(f"DROP TABLE {listed}".encode())
