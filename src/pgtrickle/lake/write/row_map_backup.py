"""A backup of the row map from before a snapshot that may not have been committed.

If the catalog is in another database, the map is changed first and committed with the intent of
the commit there.  Until the outcome is known, the entries that the map lost are kept aside.
Refreshes may go on meanwhile and add to the map: they find rows where the snapshot puts them, as
if it were there.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.lake.write.row_map import RowMap, clear_row_map
from pgtrickle.model.text.trusted import trusted


def set_aside_difference(connection: Connection, rows: RowMap) -> None:
    """Keep the new and deleted rows that the caller is about to record as delivered."""
    _create(connection, rows)
    for table, aside in ((rows.new, rows.new_aside), (rows.gone, rows.gone_aside)):
        connection.execute(trusted(f"INSERT INTO {aside} SELECT * FROM {table}"))


def set_aside_runs(connection: Connection, rows: RowMap, file_ids: Sequence[int]) -> None:
    """Keep the runs of files that are about to be merged."""
    _create(connection, rows)
    connection.execute(
        trusted(f"INSERT INTO {rows.runs_aside} SELECT * FROM {rows.runs} WHERE file_id = ANY(%s)"),
        [list(file_ids)],
    )


def forget_aside(connection: Connection, rows: RowMap) -> None:
    """Delete the backup: the snapshot was committed, and the map is right."""
    _create(connection, rows)
    for aside in (rows.runs_aside, rows.new_aside, rows.gone_aside):
        connection.execute(trusted(f"DELETE FROM {aside}"))


# A row that was moved has kept its delivery id, and its place in the table.
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
# Rows of the failed delivery that were deleted since were never in the lake.
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
    """Undo the effect of an uncommitted snapshot on the map, and keep later changes.

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
        connection.execute(trusted(statement.format(**names)), {"first": first_file_id})
    connection.execute(trusted(f"DELETE FROM {rows.runs} WHERE file_id >= %s"), [first_file_id])
    connection.execute(trusted(f"INSERT INTO {rows.runs} SELECT * FROM {rows.runs_aside}"))
    connection.execute(trusted(f"INSERT INTO {rows.gone} SELECT * FROM {rows.gone_aside}"))
    connection.execute(
        trusted(f"INSERT INTO {rows.new} (tid, key) SELECT tid, key FROM {rows.new_aside}")
    )
    forget_aside(connection, rows)


def forget_all(connection: Connection, rows: RowMap) -> None:
    """Delete the map and its backup, after a load with an unknown outcome."""
    clear_row_map(connection, rows)
    forget_aside(connection, rows)


def _create(connection: Connection, rows: RowMap) -> None:
    pairs = (
        (rows.runs, rows.runs_aside),
        (rows.new, rows.new_aside),
        (rows.gone, rows.gone_aside),
    )
    for table, aside in pairs:
        connection.execute(trusted(f"CREATE TABLE IF NOT EXISTS {aside} (LIKE {table})"))
