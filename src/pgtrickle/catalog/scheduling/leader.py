"""Queries over ``pgt_leader``: which daemon schedules refreshes.

The lease is advice: two daemons that both believe to lead only meet at the leases of stream
tables, of which each has one holder.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.version import VERSION, spark_version

# Whoever asks lives, whether it gets the lead or not.
_CLAIM = """
    WITH seen AS (
        INSERT INTO pgtrickle.pgt_daemons AS d (daemon, started_at, seen_at, package, spark)
        SELECT %(owner)s, clock.time, clock.time, %(package)s, %(spark)s
          FROM (SELECT pg_catalog.clock_timestamp() AS time) AS clock
            ON CONFLICT (daemon) DO UPDATE SET seen_at = excluded.seen_at
    )
    INSERT INTO pgtrickle.pgt_leader AS l (owner, acquired_at, expires_at)
    SELECT %(owner)s, clock.time, clock.time + %(duration)s
      FROM (SELECT pg_catalog.clock_timestamp() AS time,
                   -- Not waited for on disk: a crash that forgets the leader makes room for one.
                   pg_catalog.set_config('synchronous_commit', 'off', true) AS committed) AS clock
     WHERE clock.committed IS NOT NULL
        ON CONFLICT (only_one) DO UPDATE
       SET owner = excluded.owner,
           acquired_at = CASE WHEN l.owner = excluded.owner THEN l.acquired_at
                              ELSE excluded.acquired_at END,
           expires_at = excluded.expires_at,
           saturation = CASE WHEN l.owner = excluded.owner THEN l.saturation END
     WHERE l.owner = excluded.owner
        OR l.expires_at <= pg_catalog.clock_timestamp()
        -- One from the future was given before the clock was set back: it would last too long.
        OR l.expires_at > pg_catalog.clock_timestamp() + 2 * %(duration)s
    RETURNING l.owner
"""


def claim_leadership(connection: Connection[TupleRow], owner: str, duration: timedelta) -> bool:
    """Take or prolong the lead for a while; tell whether ``owner`` has it."""
    values = {"owner": owner, "duration": duration, "package": VERSION, "spark": spark_version()}
    return connection.execute(_CLAIM, values).fetchone() is not None


_FIND = "SELECT owner FROM pgtrickle.pgt_leader WHERE expires_at > pg_catalog.clock_timestamp()"


def find_leader(connection: Connection[TupleRow]) -> str | None:
    """Return who leads, None if nobody does."""
    row = connection.execute(_FIND).fetchone()
    return None if row is None else str(row[0])


_FIND_LAST = """
    SELECT owner, expires_at - pg_catalog.clock_timestamp() FROM pgtrickle.pgt_leader
"""


@dataclass(frozen=True, slots=True)
class LastLeader:
    """The daemon that leads, or led last and has not given up the lead."""

    owner: str
    remaining: timedelta  # of its lease; negative when that has ended


def find_last_leader(connection: Connection[TupleRow]) -> LastLeader | None:
    """Return who leads or led last, None if nobody did."""
    row = connection.execute(_FIND_LAST).fetchone()
    return None if row is None else LastLeader(*row)


_RELEASE = """
    WITH gone AS (DELETE FROM pgtrickle.pgt_daemons WHERE daemon = %(owner)s)
    DELETE FROM pgtrickle.pgt_leader WHERE owner = %(owner)s
"""


def release_leadership(connection: Connection[TupleRow], owner: str) -> None:
    """Let another lead at once; nothing happens if another does already."""
    connection.execute(_RELEASE, {"owner": owner})


_SWEEP = """
    DELETE FROM pgtrickle.pgt_daemons
     WHERE seen_at < pg_catalog.clock_timestamp() - interval '1 hour'
"""


def sweep_daemons(connection: Connection[TupleRow]) -> None:
    """Forget daemons that were killed: they could not say that they end."""
    connection.execute(_SWEEP)
