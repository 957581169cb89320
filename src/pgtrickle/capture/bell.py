"""The bell that a writer rings for a scheduler at rest, and only then.

NOTIFY makes transactions commit one after another, which would be a high price for writers while
nobody sleeps.  So the listener raises a flag while it wants to be woken, and a writer rings if it
sees one: with nobody at rest, a statement pays for a look at a page in memory.  A writer looks
after it has written to the buffer, and keeps its lock on that to its end.  So the listener knows,
from the locks, which writers may have looked before the flag was raised; when those have ended,
nobody is left who writes and does not ring.

The flags are bits of sequences, which only we may read or set, and which every transaction sees at
once, whatever its snapshot.  They count until the time that stands above them, or a listener that
died would make writers ring for ever.  One flag serves several sources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import BUFFER_SCHEMA

CHANNEL = "pg_trickle_wake"
_SEQUENCES = 8
_BITS = 32
_FLAGS = _SEQUENCES * _BITS
FLAGS_LAST = 10  # seconds, unless they are raised again

# Who has executed NOTIFY cannot prepare its transaction, and capture must never make a write fail:
# where transactions can be prepared, somebody has to say that nobody does.
_WILLING = """pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')"""
# NOTIFY fails at commit while the server's queue is full, which anybody can bring about who lets a
# session listen in an open transaction.  A writer may commit long after it rang, so it rings only
# while nearly all of the queue is free; what it does not say is found when somebody looks.
_ROOM = "pg_catalog.pg_notification_queue_usage() < 0.01"
# It is where the function is, and goes with it.
_VALUE = "pg_catalog.pg_sequence_last_value({sequence}::pg_catalog.regclass)"
# Seconds since 2020, so that they fit beside the flags until 2088.
_NOW = "(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8"
# The first question stands alone: beside a query it would be planned as one, for some microseconds.
_RING = sql.SQL(f"""
    IF {_VALUE} & {{mask}} <> 0 THEN
        IF {_VALUE} >> {_BITS} > {_NOW}
           AND {_WILLING}
           AND {_ROOM}
           AND {{touched}} THEN
            PERFORM pg_catalog.pg_notify({{channel}}, {{relid}});
        END IF;
    END IF;""")


def flag_of(source_relid: int) -> int:
    """Return the flag that stands for a source.

    >>> flag_of(16_385), flag_of(16_385 + 256)
    (1, 1)
    """
    return source_relid % _FLAGS


def ring(source_relid: int, touched: sql.Composable) -> sql.Composed:
    """Write the part of a capture function that rings; ``touched`` tells whether there is a row.

    It comes after what writes to the buffer.
    """
    sequence, bit = divmod(flag_of(source_relid), _BITS)
    return _RING.format(
        sequence=sql.Literal(_sequence(sequence)),
        mask=sql.SQL(f"{1 << bit}::pg_catalog.int8"),
        touched=touched,
        channel=sql.Literal(CHANNEL),
        relid=sql.Literal(str(source_relid)),
    )


_RAISE = f"""
    SELECT pg_catalog.setval(one.sequence::pg_catalog.regclass,
                             ({_NOW} + %(seconds)s << {_BITS}) | one.flags)
      FROM ROWS FROM (pg_catalog.unnest(%(sequences)s::pg_catalog.text[]),
                      pg_catalog.unnest(%(flags)s::pg_catalog.int8[])) AS one (sequence, flags)
"""


def raise_flags(
    connection: Connection[TupleRow], flags: Collection[int], lowered: Collection[int] = ()
) -> None:
    """Raise flags for a while, or for longer if they are up, and lower those given."""
    values: dict[int, int] = {flag // _BITS: 0 for flag in {*flags, *lowered}}
    for flag in set(flags):
        values[flag // _BITS] |= 1 << flag % _BITS
    connection.execute(
        _RAISE.encode(),
        {
            "seconds": FLAGS_LAST,
            "sequences": [_sequence(number) for number in values],
            "flags": list(values.values()),
        },
    )


_LIST_WRITERS = """
    SELECT pg_catalog.substr(c.relname, 9)::pg_catalog.int8, l.virtualtransaction
      FROM pg_catalog.pg_locks AS l
      JOIN pg_catalog.pg_database AS d ON d.oid = l.database
      JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
       AND d.datname = pg_catalog.current_database()
       AND n.nspname = 'pgtrickle_changes' AND c.relname ~ '^changes_[0-9]+$'
"""


def list_writers(connection: Connection[TupleRow]) -> dict[int, set[str]]:
    """Return the transactions that have written to buffers and not ended, by flag."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for relid, transaction in connection.execute(_LIST_WRITERS):
        found[flag_of(relid)].add(transaction)
    return found


def writers_ring(connection: Connection[TupleRow]) -> bool:
    """Tell whether writers ring here; one whose role or session says otherwise does not."""
    [(they_do,)] = connection.execute(f"SELECT {_WILLING}".encode()).fetchall()
    return bool(they_do)


def _sequence(number: int) -> str:
    return f"{BUFFER_SCHEMA}.bell_{number}"
