"""Keep a lease alive during the work that it protects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.catalog.refreshes.leases import Lease, renew_lease
from pgtrickle.service.periodic import repeated
from pgtrickle.service.runtime import Runtime


@contextmanager
def keep_lease(runtime: Runtime, lease: Lease) -> Iterator[None]:
    """Renew ``lease`` from a thread, three times per lease length, until the block ends.

    The commit checks the token: a lease that could not be renewed can do no harm.
    """

    def renew(connection: Connection) -> None:
        renew_lease(connection, lease.stream_table_id, lease.token, runtime.settings.lease)

    with repeated(runtime, "renew a lease", runtime.settings.lease_seconds / 3, renew):
        yield
