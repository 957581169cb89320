"""Queries over ``pgt_leases``: who may refresh a stream table, until when.

A lease is a row and not a session lock, so it works behind a transaction-mode pooler.  It is
advice until ``check_lease`` runs in the committing transaction: that call locks the row, and from
then on no rival can take the stream table over before the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import LeaseHeldError, LeaseLostError


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to refresh one stream table, and the token that proves it."""

    stream_table_id: int
    owner: str
    token: int
    expires_at: datetime


_CLAIM = """
    INSERT INTO pgtrickle.pgt_leases AS l (pgt_id, owner, acquired_at, expires_at)
    SELECT %(id)s, %(owner)s, clock.time, clock.time + %(duration)s
      FROM (SELECT pg_catalog.clock_timestamp() AS time,
                   -- Not waited for on disk: a crash that forgets a lease frees it, no more.
                   pg_catalog.set_config('synchronous_commit', 'off', true) AS committed) AS clock
     WHERE clock.committed IS NOT NULL
        ON CONFLICT (pgt_id) DO UPDATE
       SET owner = excluded.owner,
           token = pg_catalog.nextval('pgtrickle.pgt_lease_tokens'),
           acquired_at = excluded.acquired_at,
           expires_at = excluded.expires_at
     -- Checked on the row as it is now, not as our snapshot saw it: a rival that committed its
     -- lease after we began keeps it, and no row is returned.
     -- A lease from the future was given before the clock was set back: it would last too long.
     WHERE l.expires_at <= pg_catalog.clock_timestamp()
        OR l.acquired_at > pg_catalog.clock_timestamp() + interval '10 seconds'
    RETURNING l.token, l.expires_at
"""
_FIND_HOLDER = """
    SELECT owner, expires_at FROM pgtrickle.pgt_leases WHERE pgt_id = %(id)s
"""


def claim_lease(
    connection: Connection[TupleRow], stream_table_id: int, owner: str, duration: timedelta
) -> Lease:
    """Lease a stream table to ``owner``, or raise ST209 if an unexpired lease exists.

    Commit at once: a rival that claims in the meantime waits for this transaction.  An owner's
    own unexpired lease is refused too, so that two threads of one process exclude each other.
    """
    if duration <= timedelta(0):
        raise ValueError(f"a lease lasts longer than {duration}")
    row = connection.execute(
        _CLAIM, {"id": stream_table_id, "owner": owner, "duration": duration}
    ).fetchone()
    if row is None:
        holder = connection.execute(_FIND_HOLDER, {"id": stream_table_id}).fetchone()
        # The holder may release between the two statements; the caller's retry will succeed.
        who, until = ("another process", "a moment ago") if holder is None else holder
        raise LeaseHeldError(
            f'the stream table is being refreshed by "{who}" until {until}',
            hint="Try again later; a lease whose owner died is free once it expires.",
        )
    token, expires_at = row
    return Lease(stream_table_id, owner, token, expires_at)


_RENEW = """
    UPDATE pgtrickle.pgt_leases
       SET expires_at = pg_catalog.clock_timestamp() + %(duration)s,
           -- The clock may have been set back since.
           acquired_at = LEAST(acquired_at, pg_catalog.clock_timestamp())
     WHERE pgt_id = %(id)s AND token = %(token)s
    RETURNING owner, expires_at
"""


def renew_lease(
    connection: Connection[TupleRow], stream_table_id: int, token: int, duration: timedelta
) -> Lease:
    """Prolong a lease, also an expired one that nobody has taken over; ST210 otherwise."""
    row = connection.execute(
        _RENEW, {"id": stream_table_id, "token": token, "duration": duration}
    ).fetchone()
    if row is None:
        raise _lost()
    owner, expires_at = row
    return Lease(stream_table_id, owner, token, expires_at)


_CHECK = """
    SELECT FROM pgtrickle.pgt_leases
     WHERE pgt_id = %(id)s AND token = %(token)s
       FOR UPDATE
"""


def check_lease(connection: Connection[TupleRow], stream_table_id: int, token: int) -> None:
    """Lock the lease for the rest of the transaction, or raise ST210 if it is another's now.

    The token decides, not the clock: an expired lease that nobody took is still good.
    """
    if connection.execute(_CHECK, {"id": stream_table_id, "token": token}).fetchone() is None:
        raise _lost()


_RELEASE = """
    DELETE FROM pgtrickle.pgt_leases
     WHERE pgt_id = %(id)s AND token = %(token)s
       -- Not waited for on disk: a lease that a crash brings back expires.
       AND pg_catalog.set_config('synchronous_commit', 'off', true) IS NOT NULL
"""


def release_lease(connection: Connection[TupleRow], stream_table_id: int, token: int) -> None:
    """Give a lease back; a lease that is another's by now stays theirs."""
    connection.execute(_RELEASE, {"id": stream_table_id, "token": token})


_DELETE_GHOST = """
    DELETE FROM pgtrickle.pgt_leases WHERE pgt_id = %(id)s AND owner = %(owner)s
"""


def delete_ghost(connection: Connection[TupleRow], stream_table_id: int, owner: str) -> bool:
    """Delete a lease that its owner has given back without the server knowing; tell if it was so.

    The server was gone when it was given back, or forgot it in a crash.  Only the owner can tell.
    """
    values = {"id": stream_table_id, "owner": owner}
    return connection.execute(_DELETE_GHOST, values).rowcount > 0


_DELETE_OF_DEAD = """
    DELETE FROM pgtrickle.pgt_leases AS l
     USING (SELECT d.pgt_id FROM pgtrickle.pgt_leases AS d
             WHERE d.owner = %(owner)s
               -- What a transaction holds that is about to commit is not a dead one's.
               FOR UPDATE SKIP LOCKED) AS dead
     WHERE l.pgt_id = dead.pgt_id
"""


def delete_leases_of_dead(connection: Connection[TupleRow], owner: str) -> int:
    """Free what a process held that is taken for dead; should it live, its commits fail."""
    return connection.execute(_DELETE_OF_DEAD, {"owner": owner}).rowcount


_FIND_RIVAL = """
    SELECT FROM pgtrickle.pgt_leases AS l
      JOIN pgtrickle.pgt_dependencies AS d USING (pgt_id)
     WHERE d.source_relid = %(relid)s AND l.token IS DISTINCT FROM %(token)s::pg_catalog.int8
     LIMIT 1
"""


def find_rival_lease(
    connection: Connection[TupleRow], source_relid: int, token: int | None
) -> bool:
    """Tell whether a consumer of a source may be in the middle of a refresh, ``token`` apart.

    An expired lease counts: as long as nobody takes it over, its refresh may still commit.
    """
    values = {"relid": source_relid, "token": token}
    return connection.execute(_FIND_RIVAL, values).fetchone() is not None


def _lost() -> LeaseLostError:
    return LeaseLostError(
        "the lease on the stream table expired and another process took it over, or the catalog"
        " was migrated",
        hint="Refresh it again; if this repeats, refreshes take longer than the lease.",
    )
