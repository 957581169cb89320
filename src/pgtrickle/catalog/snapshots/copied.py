"""How the rows of a snapshot were copied: by that, a restore knows rows that are still the same.

PostgreSQL never changes a stored row in place: a change writes another one, under the number of its
transaction.  So a row of a transaction that had ended before the copy is in the copy, as it is.
"""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.table_snapshot import Copied
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

_HORIZON = """
    SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.text
"""


def find_horizon(connection: Connection[TupleRow]) -> int:
    """Return the first transaction that may not have ended."""
    [(number,)] = connection.execute(_HORIZON).fetchall()
    return int(number)


_INSERT = """
    UPDATE pgtrickle.pgt_snapshots
       SET copied_relid = %(relid)s, settled_before = %(before)s::pg_catalog.text::pg_catalog.xid8,
           copied_by = %(by)s::pg_catalog.text::pg_catalog.xid
     WHERE snapshot_id = %(id)s
"""


def insert_copied(
    connection: Connection[TupleRow],
    snapshot_id: int,
    stream_table: StreamTable,
    copy: QualifiedName,
    horizon: int,
) -> None:
    """Record how rows were copied, if there are any: in this transaction, after the horizon."""
    found = connection.execute(
        trusted(f"SELECT c.xmin::pg_catalog.text FROM ONLY {copy.sql} AS c LIMIT 1")
    ).fetchall()
    for (by,) in found:
        values = {"relid": stream_table.relid, "before": str(horizon), "by": by, "id": snapshot_id}
        connection.execute(_INSERT, values)


# The numbers of stored rows have 32 bits, and say nothing across an epoch of them.  The columns are
# those of that time: one that was dropped and added again would be NULL in the old rows.
_FIND = """
    SELECT n.settled_before::pg_catalog.text, n.copied_by::pg_catalog.text, n.row_count
      FROM pgtrickle.pgt_snapshots AS n,
           LATERAL (SELECT n.settled_before::pg_catalog.text::pg_catalog.int8 AS before,
                           pg_catalog.pg_current_xact_id()::pg_catalog.text::pg_catalog.int8
                           + %(reserve)s AS now) AS x
     WHERE n.snapshot_id = %(id)s AND n.copied_relid = %(relid)s AND n.copied_by IS NOT NULL
       AND pgtrickle.lies_here(n.frontier)
       AND x.before < x.now AND x.before >> 32 = x.now >> 32 AND x.before & 4294967295 > 3
       AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = n.copied_relid AND a.attnum > 0
              AND a.xmin::pg_catalog.text::pg_catalog.int8
                  NOT BETWEEN 3 AND (x.before & 4294967295) - 1)
"""
_RESERVE = 1 << 24  # transactions that may begin until the restore has ended


def find_copied(
    connection: Connection[TupleRow], snapshot_id: int, stream_table: StreamTable
) -> Copied | None:
    """Return how the rows of a snapshot were copied; None where that says nothing any more."""
    values = {"id": snapshot_id, "relid": stream_table.relid, "reserve": _RESERVE}
    for before, by, rows in connection.execute(_FIND, values):
        return Copied(int(before) & 0xFFFFFFFF, int(by), rows)
    return None
