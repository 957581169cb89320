"""What tables take on disk, by ``disk_usage()`` (91_disk_usage.sql)."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow, class_row

from pgtrickle.model.insight.disk_usage import DiskUsage

_LIST = """
    SELECT kind, name, stream_table, bytes, estimated_rows, retention FROM pgtrickle.disk_usage()
"""


def list_disk_usage(connection: Connection[TupleRow]) -> list[DiskUsage]:
    """Return what each table takes, the largest first."""
    with connection.cursor(row_factory=class_row(DiskUsage)) as cursor:
        return cursor.execute(_LIST).fetchall()
