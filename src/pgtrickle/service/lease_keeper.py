"""Keep a lease alive while the work it protects goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pgtrickle.catalog.leases import Lease, renew_lease
from pgtrickle.errors import TrickleError
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)


@contextmanager
def keep_lease(runtime: Runtime, lease: Lease) -> Iterator[None]:
    """Renew ``lease`` from a thread, three times in its length, until the block ends."""
    done = threading.Event()

    def renew() -> None:
        interval = runtime.settings.lease_seconds / 3
        while not done.wait(interval):
            try:
                with runtime.connection() as connection:
                    renew_lease(
                        connection, lease.stream_table_id, lease.token, runtime.settings.lease
                    )
            except TrickleError as error:
                # The commit checks the token: a lease that is lost cannot do harm here.
                logger.warning("could not renew a lease", extra={"code": error.code})

    thread = threading.Thread(target=renew, name="pgtrickle-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        # Not to renew what the caller is about to give back.
        thread.join()
