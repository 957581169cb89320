"""The bell that a writer rings for a scheduler at rest, and only then.

NOTIFY makes transactions commit one after another, which would be a high price for writers while
nobody sleeps.  So the listener holds a lock while it wants to be woken, and a writer rings if it
cannot share that lock: with nobody at rest, a statement pays for one lock in memory.  A writer
that has the lock keeps it to its end, and until then the listener does not get it.  What slips
through between a look that found nothing and the listening is found by the next look.

One lock serves several sources, or a thousand of them would fill the server's table of locks.
"""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection, sql
from psycopg.rows import TupleRow

CHANNEL = "pg_trickle_wake"
_LOCK_CLASS = 0x70677477  # 'pgtw': arbitrary, and ours alone
_LOCKS = 256

# Who has executed NOTIFY cannot prepare its transaction, and capture must never make a write fail:
# where transactions can be prepared, somebody has to say that nobody does.
_WILLING = """pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')"""
# NOTIFY fails at commit while the server's queue is full, which anybody can bring about who lets a
# session listen in an open transaction.  A writer may commit long after it rang, so it rings only
# while nearly all of the queue is free; what it does not say is found when somebody looks.
_ROOM = "pg_catalog.pg_notification_queue_usage() < 0.01"
_RING = sql.SQL(f"""
    IF NOT pg_catalog.pg_try_advisory_xact_lock_shared({{lock_class}}, {{lock}})
       AND {_WILLING}
       AND {_ROOM}
       AND {{touched}} THEN
        PERFORM pg_catalog.pg_notify({{channel}}, {{relid}});
    END IF;""")


def lock_of(source_relid: int) -> int:
    """Return the lock that stands for a source.

    >>> lock_of(16_385), lock_of(16_385 + 256)
    (1, 1)
    """
    return source_relid % _LOCKS


def ring(source_relid: int, touched: sql.Composable) -> sql.Composed:
    """Write the part of a capture function that rings; ``touched`` tells whether there is a row."""
    return _RING.format(
        lock_class=sql.Literal(_LOCK_CLASS),
        lock=sql.Literal(lock_of(source_relid)),
        touched=touched,
        channel=sql.Literal(CHANNEL),
        relid=sql.Literal(str(source_relid)),
    )


_HOLD = """
    SELECT one.lock FROM pg_catalog.unnest(%(locks)s::pg_catalog.int4[]) AS one (lock)
     WHERE pg_catalog.pg_try_advisory_lock(%(class)s, one.lock)
"""
_LET_GO = """
    SELECT pg_catalog.pg_advisory_unlock(%(class)s, one.lock)
      FROM pg_catalog.unnest(%(locks)s::pg_catalog.int4[]) AS one (lock)
"""


def hold_locks(connection: Connection[TupleRow], locks: Collection[int]) -> set[int]:
    """Take those locks that no writer has, for the session, and return them."""
    values = {"class": _LOCK_CLASS, "locks": sorted(locks)}
    return {lock for (lock,) in connection.execute(_HOLD, values)}


def let_go(connection: Connection[TupleRow], locks: Collection[int]) -> None:
    """Give locks back."""
    connection.execute(_LET_GO, {"class": _LOCK_CLASS, "locks": sorted(locks)})


def writers_ring(connection: Connection[TupleRow]) -> bool:
    """Tell whether writers ring here; one whose role or session says otherwise does not."""
    [(they_do,)] = connection.execute(f"SELECT {_WILLING}".encode()).fetchall()
    return bool(they_do)
