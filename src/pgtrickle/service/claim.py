"""Claim a stream table: check the role and hold its lease."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
from psycopg import Connection

from pgtrickle.catalog.refreshes.leases import Lease, claim_lease, delete_ghost, release_lease
from pgtrickle.catalog.stream_tables import get_stream_table, get_stream_table_by_id
from pgtrickle.errors import LeaseHeldError, StatusForbidsError, TrickleError
from pgtrickle.model.stream_table import InitiatedBy, Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime


@contextmanager
def claimed(
    runtime: Runtime, name: QualifiedName, initiated_by: InitiatedBy, *, trial: bool = False
) -> Iterator[tuple[StreamTable, Lease]]:
    """Hold the lease on a stream table during a short block.

    Work that may take longer than a lease renews it (see ``lease_keeper``). A ``trial`` may begin
    even if errors have suspended the stream table.
    """
    with ExitStack() as stack:
        with runtime.connection() as connection:
            stream_table = get_stream_table(connection, name)
            check_owner(connection, stream_table)
            if initiated_by is not InitiatedBy.INITIAL:
                _check_status(stream_table, trial=trial)
            stack.enter_context(runtime.claims.entered(stream_table.id))
            lease = _claim(runtime, connection, stream_table.id)
            # Read again under the lease: its previous holder may have moved the frontier.
            stream_table = get_stream_table_by_id(connection, stream_table.id)
        try:
            yield stream_table, lease
        finally:
            # A lease that cannot be released, because the server is gone, expires by itself.
            with suppress(TrickleError), runtime.connection() as connection:
                release_lease(connection, stream_table.id, lease.token)


def _claim(runtime: Runtime, connection: Connection, stream_table_id: int) -> Lease:
    """Claim the lease, also if this process holds it and none of its threads uses it."""
    owner, duration = runtime.owner, runtime.settings.lease
    try:
        return claim_lease(connection, stream_table_id, owner, duration)
    except psycopg.errors.LockNotAvailable as error:
        # A transaction that refreshes several stream tables holds it and is about to commit.
        raise LeaseHeldError(
            "the stream table is being refreshed together with others",
            hint="Try again when that is done.",
        ) from error
    except LeaseHeldError:
        # Checked now: a later thread may have been faster.
        with runtime.claims.closed(stream_table_id) as alone:
            if not alone or not delete_ghost(connection, stream_table_id, owner):
                raise
            return claim_lease(connection, stream_table_id, owner, duration)


def _check_status(stream_table: StreamTable, *, trial: bool) -> None:
    tried = trial and stream_table.suspended_by is not None
    if stream_table.status is Status.SUSPENDED and not tried:
        raise StatusForbidsError(
            f'the stream table "{stream_table.name}" is suspended',
            hint=f"Resume it with: pgtrickle alter {stream_table.name} --status ACTIVE.",
        )
    if stream_table.status is Status.INITIALIZING and stream_table.frontier is not None:
        raise StatusForbidsError(
            f'the stream table "{stream_table.name}" is being initialized',
            hint="Wait for its first load, or drop it.",
        )
