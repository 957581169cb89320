"""Queries over ``pgt_ducklake_intents``: what was about to be committed in another database."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.model.frontier import Frontier
from pgtrickle.model.lake.sink import Intent

_INSERT = """
    INSERT INTO pgtrickle.pgt_ducklake_intents
        (pgt_id, token, snapshot_id, first_file_id, paths, loads, before, delivery_id, refresh_id,
         frontier, rows_written, rows_deleted, bytes_written)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


def insert_intent(connection: Connection[TupleRow], intent: Intent) -> None:
    """Record what is about to be committed elsewhere; there is one at a time for a sink."""
    frontier = None if intent.frontier is None else Jsonb(intent.frontier.to_json())
    connection.execute(
        _INSERT,
        [
            intent.stream_table_id,
            intent.token,
            intent.snapshot_id,
            intent.first_file_id,
            list(intent.paths),
            intent.loads,
            Jsonb(dict(intent.before)),
            intent.delivery_id,
            intent.refresh_id,
            frontier,
            intent.rows,
            intent.deleted,
            intent.size,
        ],
    )


_FIND = """
    SELECT pgt_id, token, snapshot_id, first_file_id, paths, loads, before, delivery_id, refresh_id,
           frontier, rows_written, rows_deleted, bytes_written
      FROM pgtrickle.pgt_ducklake_intents WHERE pgt_id = %s
"""


def find_intent(connection: Connection[TupleRow], stream_table_id: int) -> Intent | None:
    """Return what was about to be committed for a sink, unless its outcome is known."""
    row = connection.execute(_FIND, [stream_table_id]).fetchone()
    if row is None:
        return None
    id_, token, snapshot_id, first, paths, loads, before, delivery_id, refresh_id, read, *sums = row
    frontier = None if read is None else Frontier.from_json(read)
    return Intent(
        id_,
        token,
        snapshot_id,
        first,
        tuple(paths),
        loads,
        before,
        delivery_id,
        refresh_id,
        frontier,
        *sums,
    )


def take_intent(connection: Connection[TupleRow], intent: Intent) -> bool:
    """Strike off an intent; False if somebody else did, who then acts on its outcome."""
    return (
        connection.execute(
            "DELETE FROM pgtrickle.pgt_ducklake_intents WHERE pgt_id = %s AND token = %s",
            [intent.stream_table_id, intent.token],
        ).rowcount
        > 0
    )
