"""The transaction in which several stream tables are refreshed: it reads and it writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from psycopg import Connection

from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.refreshes.leases import check_lease
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.capturing.mode import LOSSES, drain_if_behind, hand_back
from pgtrickle.service.refreshing.refresh import Refresh
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot, open_buffers
from pgtrickle.service.refreshing.start_again import StartAgainError
from pgtrickle.session import BEGIN_SNAPSHOT, Session

GET_OWN = (
    "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text, pg_catalog.pg_export_snapshot(),"
    " pg_catalog.clock_timestamp()"
)


@contextmanager
def rolled_back(connection: Connection) -> Iterator[None]:
    """Leave no transaction open, whatever happens."""
    try:
        yield
    finally:
        if not connection.closed:
            connection.rollback()


def open_together(connection: Session, refreshes: Sequence[Refresh]) -> Snapshot:
    """Begin the transaction that reads and writes, with a frontier that sees its own writes.

    The tables are locked before the snapshot is taken: otherwise it could miss objects on them that
    it must find before it writes, such as another role's trigger.
    """
    names = sorted((one.stream_table.name for one in refreshes), key=str)
    listed = ", ONLY ".join(name.sql for name in names)
    connection.execute(BEGIN_SNAPSHOT)
    connection.execute(trusted(f"LOCK TABLE ONLY {listed} IN ROW EXCLUSIVE MODE"))
    frontier = get_frontier(connection)
    [(own, name, taken_at)] = connection.execute(GET_OWN).fetchall()
    # A lease that is renewed after the snapshot could not be locked: see ADR 0017.
    leases = [one.lease for one in refreshes]
    for lease in sorted(leases, key=lambda one: one.stream_table_id):
        check_lease(connection, lease.stream_table_id, lease.token)
    frontier = replace(frontier, snapshot=frontier.snapshot.with_own(int(own)))
    return Snapshot(connection, frontier, name, taken_at, writes=True)


@contextmanager
def open_writing_moment(
    refresh: Refresh, sources: Collection[int], *, kept: bool = True
) -> Iterator[tuple[Snapshot, BufferView]]:
    """Open a transaction that reads and writes for one stream table, and commit it at the end.

    If it is not ``kept``, it is rolled back. What the log has lost goes back to triggers, and the
    refresh starts again.
    """
    runtime = refresh.runtime
    with runtime.connection() as connection, rolled_back(connection):
        try:
            with refresh.account.timed("capture"), runtime.connection() as other:
                drain_if_behind(runtime, other, sources)
            snapshot = open_together(connection, [refresh])
            with open_buffers(runtime, snapshot, sources) as buffers:
                yield snapshot, buffers
        except LOSSES as error:
            hand_back(runtime, error)
            raise StartAgainError(refresh) from None
        if kept:
            connection.commit()


_LIST_TEMPORARY = """
    SELECT pg_catalog.quote_ident(c.relname) FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = pg_catalog.pg_my_temp_schema() AND c.relkind = 'r'
       AND c.relname <> ALL (%(but)s::pg_catalog.text[])
"""


def drop_temporary_tables(connection: Connection, but: Collection[str] = ()) -> None:
    """Drop the staging tables of a member: the next one uses the same names."""
    names = [name for (name,) in connection.execute(_LIST_TEMPORARY, {"but": list(but)})]
    if names:
        listed = ", ".join(f"pg_temp.{name}" for name in names)
        connection.execute(trusted(f"DROP TABLE {listed}"))
