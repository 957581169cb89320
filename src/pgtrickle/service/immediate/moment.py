"""The transaction in which an IMMEDIATE stream table is computed anew, while nobody writes.

Creating the triggers locks the sources.  So every statement after that sees the same rows, and the
writers that come next find the triggers and contents that fit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.refreshes.leases import check_lease
from pgtrickle.errors import ServerBusyError
from pgtrickle.immediate.install import Excess, install_immediate, is_installed
from pgtrickle.immediate.pauses import check_pauses, lock_pauses
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.immediate.plans import make_blueprint
from pgtrickle.service.lock_waits import is_lock_timeout
from pgtrickle.service.refreshing.groups.shared_transaction import GET_OWN, rolled_back
from pgtrickle.service.refreshing.refresh import Prepared
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot
from pgtrickle.service.runtime import translated_errors
from pgtrickle.session import FIX_PATH

# Whoever waits for a lock on a source holds up its writers: rather try again, and then later.  A
# wait ends before the server looks for deadlocks, so that no writer falls victim to one.
_BEGIN = f"BEGIN; {FIX_PATH}; SET LOCAL lock_timeout = '100ms'"
_LOCKED = "SET LOCAL lock_timeout = '1s'"
_PATIENCE_SECONDS = 1.0
_PAUSE_SECONDS = 0.1


@contextmanager
def open_immediate_moment(prepared: Prepared) -> Iterator[tuple[Snapshot, BufferView]]:
    """Lock the sources with new triggers, and open a transaction that reads and writes."""
    refresh = prepared.refresh
    with refresh.runtime.connection() as connection, rolled_back(connection):
        with refresh.account.timed("capture"):
            _lock_out_writers(connection, prepared)
        frontier = get_frontier(connection)
        [(_, name, taken_at)] = connection.execute(GET_OWN).fetchall()
        snapshot = Snapshot(connection, frontier, name, taken_at, writes=True)
        yield snapshot, BufferView(connection, name)
        connection.commit()


def _lock_out_writers(connection: Connection, prepared: Prepared) -> None:
    """Begin the transaction and create the triggers, again while somebody holds a lock."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        connection.execute(trusted(_BEGIN))
        try:
            with translated_errors():
                _install(connection, prepared)
                connection.execute(_LOCKED)
                return
        except ServerBusyError as error:
            connection.rollback()
            if not is_lock_timeout(error) or time.monotonic() > end:
                raise
        time.sleep(_PAUSE_SECONDS)


def _install(connection: Connection, prepared: Prepared) -> None:
    stream_table, settings = prepared.stream_table, prepared.refresh.runtime.settings
    excess = Excess(settings.immediate_max_delta_rows, settings.immediate_excess)
    check_lease(connection, stream_table.id, prepared.refresh.lease.token)
    lock_pauses(connection)
    blueprint = make_blueprint(connection, stream_table, prepared.compiled, excess.max_rows)
    if not is_installed(connection, stream_table.id):
        names = {relid: one.name for relid, one in blueprint.sources.items()}
        check_pauses(connection, names)
    install_immediate(connection, blueprint, excess, stream_table.owner)
    lock = f"LOCK TABLE ONLY {stream_table.name.sql} IN SHARE ROW EXCLUSIVE MODE"
    connection.execute(trusted(lock))
