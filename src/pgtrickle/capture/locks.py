"""Locks for changing the capture of a source or deleting from its buffer: rows of ``pgt_locks``.

Advisory locks would be simpler, but every role that can connect can take and keep them.  The
rows can be locked only by pgtrickle's role and are never updated, so any snapshot can lock them.
"""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import ServerBusyError

_TRIES = 10  # each fails only if the row was made or deleted meanwhile

# A row that this statement inserts is as good as locked: other inserters wait.
_LOCK = """
    WITH made AS (
        INSERT INTO pgtrickle.pgt_locks (purpose, relid)
        SELECT p.purpose, %(relid)s
          FROM (VALUES ('buffer'), ('capture')) AS p (purpose)
            ON CONFLICT DO NOTHING
        RETURNING purpose
    ), locked AS (
        SELECT l.purpose FROM pgtrickle.pgt_locks AS l
         WHERE l.purpose = 'capture' AND l.relid = %(relid)s
           FOR UPDATE
    )
    SELECT FROM made WHERE purpose = 'capture' UNION ALL SELECT FROM locked
"""
_TRY_LOCK = """
    SELECT FROM pgtrickle.pgt_locks
     WHERE purpose = %(purpose)s AND relid = %(relid)s
       FOR UPDATE SKIP LOCKED
"""
_LOCK_BUFFERS = """
    SELECT FROM pgtrickle.pgt_locks
     WHERE purpose = 'buffer' AND relid = ANY (%(relids)s::pg_catalog.oid[])
     ORDER BY relid
       FOR UPDATE
"""
_FORGET = "DELETE FROM pgtrickle.pgt_locks WHERE relid = %(relid)s"


def lock_capture(connection: Connection[TupleRow], relid: int) -> None:
    """Wait for the right to change the capture of a source; it lasts until the commit.

    Take it before changing the catalog's records of the capture, too.
    """
    for _ in range(_TRIES):
        if connection.execute(_LOCK, {"relid": relid}).fetchone() is not None:
            return
    raise ServerBusyError(
        f"the capture of the table with oid {relid} is made and dropped again and again",
        hint="Try again when that is done.",
    )


def try_lock_capture(connection: Connection[TupleRow], relid: int) -> bool:
    """Take the same right if it is free."""
    return _try_lock(connection, "capture", relid)


def try_lock_buffer(connection: Connection[TupleRow], relid: int) -> bool:
    """Claim the right to delete from a buffer until the transaction ends, if it is free."""
    return _try_lock(connection, "buffer", relid)


def lock_buffers(connection: Connection[TupleRow], relids: Collection[int]) -> None:
    """Wait until nobody deletes from these buffers, and keep it so until the transaction ends."""
    connection.execute(_LOCK_BUFFERS, {"relids": list(relids)})


def forget_locks(connection: Connection[TupleRow], relid: int) -> None:
    """Delete the rows of a source whose capture is dropped."""
    connection.execute(_FORGET, {"relid": relid})


def _try_lock(connection: Connection[TupleRow], purpose: str, relid: int) -> bool:
    values = {"purpose": purpose, "relid": relid}
    return connection.execute(_TRY_LOCK, values).fetchone() is not None
