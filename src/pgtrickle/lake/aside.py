"""What the row map was before a snapshot that may not have been committed.

Where the catalog is in another database, the map is changed first and committed with the note of
what is about to be committed there.  Until the outcome is known, what the map lost lies aside.
Refreshes may go on meanwhile and add to the map: they find rows where the snapshot puts them, as
if it were there.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.lake.row_map import RowMap, clear_row_map


def set_aside_difference(connection: Connection, rows: RowMap) -> None:
    """Keep what is new and what is gone, which the caller is about to take for delivered."""
    _create(connection, rows)
    for table, aside in ((rows.new, rows.new_aside), (rows.gone, rows.gone_aside)):
        connection.execute(f"INSERT INTO {aside} SELECT * FROM {table}".encode())


def set_aside_runs(connection: Connection, rows: RowMap, file_ids: Sequence[int]) -> None:
    """Keep the runs of files, which are about to become parts of others."""
    _create(connection, rows)
    connection.execute(
        f"INSERT INTO {rows.runs_aside} SELECT * FROM {rows.runs} WHERE file_id = ANY(%s)".encode(),
        [list(file_ids)],
    )


def forget_aside(connection: Connection, rows: RowMap) -> None:
    """Forget what lies aside: the snapshot was committed, and the map is right as it is."""
    _create(connection, rows)
    for aside in (rows.runs_aside, rows.new_aside, rows.gone_aside):
        connection.execute(f"DELETE FROM {aside}".encode())


# A row that was moved with others has kept when it was delivered, and its place in the table.
_MOVE_BACK = """
    UPDATE {gone} AS g
       SET file_id = a.file_id,
           position = a.position + r.first + g.position - r.position - a.first
      FROM {runs} AS r, {runs_aside} AS a
     WHERE g.file_id >= %(first)s AND r.file_id = g.file_id
       AND g.position >= r.position AND g.position < r.position + r.count
       AND a.delivered = r.delivered AND a.block = r.block
       AND r.first + g.position - r.position >= a.first
       AND r.first + g.position - r.position < a.first + a.count
"""
# What is gone since, of the rows that were to be delivered, never was in the lake.
_FORGET_DEAD = """
    WITH dead AS (
        DELETE FROM {gone} WHERE file_id >= %(first)s RETURNING file_id, position
    )
    DELETE FROM {new_aside} AS n USING dead AS d, {runs} AS r
     WHERE r.file_id = d.file_id
       AND d.position >= r.position AND d.position < r.position + r.count
       AND n.tid = pg_catalog.format('(%%s,%%s)', r.block, r.first + d.position - r.position)
               ::pg_catalog.tid
"""


def put_back(connection: Connection, rows: RowMap, first_file_id: int) -> None:
    """Undo what a snapshot did to the map that was not committed, and keep what came since.

    Its files are those from ``first_file_id`` on.
    """
    _create(connection, rows)
    names = {
        "gone": rows.gone,
        "runs": rows.runs,
        "runs_aside": rows.runs_aside,
        "new_aside": rows.new_aside,
    }
    for statement in (_MOVE_BACK, _FORGET_DEAD):
        connection.execute(statement.format(**names).encode(), {"first": first_file_id})
    connection.execute(f"DELETE FROM {rows.runs} WHERE file_id >= %s".encode(), [first_file_id])
    connection.execute(f"INSERT INTO {rows.runs} SELECT * FROM {rows.runs_aside}".encode())
    connection.execute(f"INSERT INTO {rows.gone} SELECT * FROM {rows.gone_aside}".encode())
    connection.execute(
        f"INSERT INTO {rows.new} (tid, key) SELECT tid, key FROM {rows.new_aside}".encode()
    )
    forget_aside(connection, rows)


def forget_all(connection: Connection, rows: RowMap) -> None:
    """Forget the map and what lies aside, after a load of which nothing is known."""
    clear_row_map(connection, rows)
    forget_aside(connection, rows)


def _create(connection: Connection, rows: RowMap) -> None:
    pairs = (
        (rows.runs, rows.runs_aside),
        (rows.new, rows.new_aside),
        (rows.gone, rows.gone_aside),
    )
    for table, aside in pairs:
        connection.execute(f"CREATE TABLE IF NOT EXISTS {aside} (LIKE {table})".encode())
