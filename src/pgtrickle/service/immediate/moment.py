"""The transaction in which an IMMEDIATE stream table is computed anew, while nobody writes.

Creating the triggers locks the sources.  So every statement after that sees the same rows, and the
writers that come next find the triggers and contents that fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.refreshes.leases import check_lease
from pgtrickle.immediate.install import Excess, install_immediate, is_installed
from pgtrickle.immediate.pauses import check_pauses, lock_pauses
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.immediate.plans import make_blueprint
from pgtrickle.service.refreshing.groups.shared_transaction import GET_OWN, rolled_back
from pgtrickle.service.refreshing.refresh import Prepared
from pgtrickle.service.refreshing.snapshot import BufferView, Snapshot
from pgtrickle.service.runtime import translated_errors
from pgtrickle.session import FIX_PATH

# Whoever waits for a lock on a source holds up its writers: rather try again later.
_BEGIN = f"BEGIN; {FIX_PATH}; SET LOCAL lock_timeout = '1s'"


@contextmanager
def open_immediate_moment(prepared: Prepared) -> Iterator[tuple[Snapshot, BufferView]]:
    """Lock the sources with new triggers, and open a transaction that reads and writes."""
    refresh, stream_table = prepared.refresh, prepared.stream_table
    runtime = refresh.runtime
    excess = Excess(runtime.settings.immediate_max_delta_rows, runtime.settings.immediate_excess)
    with runtime.connection() as connection, rolled_back(connection):
        connection.execute(trusted(_BEGIN))
        with refresh.account.timed("capture"), translated_errors():
            check_lease(connection, stream_table.id, refresh.lease.token)
            lock_pauses(connection)
            blueprint = make_blueprint(connection, stream_table, prepared.compiled, excess.max_rows)
            if not is_installed(connection, stream_table.id):
                names = {relid: one.name for relid, one in blueprint.sources.items()}
                check_pauses(connection, names)
            install_immediate(connection, blueprint, excess, stream_table.owner)
            lock = f"LOCK TABLE ONLY {stream_table.name.sql} IN SHARE ROW EXCLUSIVE MODE"
            connection.execute(trusted(lock))
        frontier = get_frontier(connection)
        [(_, name, taken_at)] = connection.execute(GET_OWN).fetchall()
        snapshot = Snapshot(connection, frontier, name, taken_at, writes=True)
        yield snapshot, BufferView(connection, name)
        connection.commit()
