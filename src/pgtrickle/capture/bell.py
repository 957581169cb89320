"""The bell that a writer rings for a scheduler at rest, and only then.

NOTIFY makes transactions commit one after another, which would be expensive for writers while no
stream table is at rest.  So the listener raises a flag while it wants to be woken, and a writer
rings if it sees one: otherwise a statement only reads a page in memory.  A writer looks after it
has written to the buffer, and keeps its lock on the buffer until it ends.  So the listener knows,
from the locks, which writers may have looked before the flag was raised; when those have ended,
every remaining writer rings.

The flags are bits of sequences, which only pgtrickle's role may read or set, and which every
transaction sees at once, under any snapshot.  They are valid until the time in their high bits;
otherwise a listener that died would make writers ring forever.  One flag serves several sources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import BUFFER_SCHEMA
from pgtrickle.model.text.trusted import trusted

CHANNEL = "pg_trickle_wake"
_SEQUENCES = 8
_BITS = 32
_FLAGS = _SEQUENCES * _BITS
FLAGS_LAST = 10  # seconds, unless they are raised again

# A transaction that has executed NOTIFY cannot be prepared, and capture must never make a write
# fail: if the server allows prepared transactions, a setting must state that none are used.
_WILLING = """pg_catalog.current_setting('pg_trickle.event_wakeup', true) IS DISTINCT FROM 'off'
       AND (pg_catalog.current_setting('max_prepared_transactions') = '0'
            OR pg_catalog.current_setting('pg_trickle.event_wakeup', true) = 'on')"""
# NOTIFY fails at commit while the server's queue is full, which any role can cause by letting a
# session listen in an open transaction.  A writer may commit long after it rang, so it rings only
# while nearly all of the queue is free; other changes are found by the next check.
_ROOM = "pg_catalog.pg_notification_queue_usage() < 0.01"
# It is in the schema of the function, and is dropped with it.
_VALUE = "pg_catalog.pg_sequence_last_value({sequence}::pg_catalog.regclass)"
# Seconds since 2020, so that they fit beside the flags until 2088.
_NOW = "(pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) - 1577836800)::pg_catalog.int8"
# The first test is separate: beside a query it would be planned as one, for some microseconds.
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
    """Return the flag of a source.

    >>> flag_of(16_385), flag_of(16_385 + 256)
    (1, 1)
    """
    return source_relid % _FLAGS


def ring(source_relid: int, touched: sql.Composable) -> sql.Composed:
    """Write the part of a capture function that rings; ``touched`` tells whether there is a row.

    It follows the statement that writes to the buffer.
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
    """Raise flags for a while, or extend those already raised, and lower the given ones."""
    values: dict[int, int] = {flag // _BITS: 0 for flag in {*flags, *lowered}}
    for flag in set(flags):
        values[flag // _BITS] |= 1 << flag % _BITS
    connection.execute(
        trusted(_RAISE),
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
    """Return the open transactions that have written to buffers, by flag."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    for relid, transaction in connection.execute(_LIST_WRITERS):
        found[flag_of(relid)].add(transaction)
    return found


def writers_ring(connection: Connection[TupleRow]) -> bool:
    """Tell whether writers ring on this server; a role or session may still opt out."""
    [(they_do,)] = connection.execute(trusted(f"SELECT {_WILLING}")).fetchall()
    return bool(they_do)


def _sequence(number: int) -> str:
    return f"{BUFFER_SCHEMA}.bell_{number}"
