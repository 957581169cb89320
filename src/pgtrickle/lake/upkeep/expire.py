"""Expire old snapshots, and release the files that only they needed.

As DuckDB's ``ducklake_expire_snapshots`` does: it creates no snapshot, and the files are
only put on the list of files to remove, since a reader may be using one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.inlined_deletes import forget_inlined_deletes
from pgtrickle.lake.format.tables import FULL_PATH
from pgtrickle.lake.write.commit_turns import take_turn
from pgtrickle.model.text.trusted import trusted

_FORGET = """
    DELETE FROM {snapshot}
     WHERE snapshot_time < pg_catalog.clock_timestamp() - %(keep)s::interval
       AND snapshot_id < (SELECT max(snapshot_id) FROM {snapshot})
       AND (%(before)s::bigint IS NULL OR snapshot_id < %(before)s)
       AND snapshot_id <> ALL (%(kept)s::bigint[])
    RETURNING snapshot_id
"""
_FORGET_CHANGES = "DELETE FROM {snapshot_changes} WHERE snapshot_id = ANY(%s)"
# A row is needed as long as there is a snapshot from its first one on, before its end.
_UNNEEDED = """
    f.end_snapshot IS NOT NULL AND NOT EXISTS (
        SELECT FROM {snapshot} AS s
         WHERE s.snapshot_id >= f.begin_snapshot AND s.snapshot_id < f.end_snapshot)
"""
_SCHEDULE = """
    WITH gone AS (
        DELETE FROM {files} AS f WHERE {unneeded}
        RETURNING f.{id} AS file_id, f.table_id, f.path, f.path_is_relative
    )
    INSERT INTO {scheduled}
    SELECT f.file_id, {path}, pg_catalog.clock_timestamp()
      FROM gone AS f
      JOIN LATERAL (SELECT * FROM {table} AS t WHERE t.table_id = f.table_id
                     ORDER BY begin_snapshot DESC LIMIT 1) AS t ON true
      JOIN LATERAL (SELECT * FROM {schema} AS s WHERE s.schema_id = t.schema_id
                     ORDER BY begin_snapshot DESC LIMIT 1) AS s ON true
    RETURNING data_file_id
"""


def expire_snapshots(
    connection: Connection,
    catalog: LakeCatalog,
    keep: timedelta,
    before: int | None = None,
    kept: Callable[[], list[int]] = list,
) -> int:
    """Expire the snapshots that are older than ``keep``, and return how many; the head stays.

    Those from ``before`` on stay too: foreign changes in them have not been checked yet.  So do
    those that ``kept`` names, which is asked when no other writer can add one any more.
    """
    snapshot = catalog.table("snapshot")
    take_turn(connection, catalog)
    values = {"keep": keep, "before": before, "kept": kept()}
    expired = [
        one for (one,) in connection.execute(trusted(_FORGET.format(snapshot=snapshot)), values)
    ]
    if not expired:
        return 0
    changes = _FORGET_CHANGES.format(snapshot_changes=catalog.table("snapshot_changes"))
    connection.execute(trusted(changes), [expired])
    for name, id_ in (("delete_file", "delete_file_id"), ("data_file", "data_file_id")):
        statement = _SCHEDULE.format(
            files=catalog.table(name),
            id=id_,
            unneeded=_UNNEEDED.format(snapshot=snapshot),
            scheduled=catalog.table("files_scheduled_for_deletion"),
            path=FULL_PATH,
            table=catalog.table("table"),
            schema=catalog.table("schema"),
        )
        gone = [one for (one,) in connection.execute(trusted(statement))]
    for name in ("file_column_stats", "file_partition_value"):
        connection.execute(
            trusted(f"DELETE FROM {catalog.table(name)} WHERE data_file_id = ANY(%s)"), [gone]
        )
    forget_inlined_deletes(connection, catalog)
    return len(expired)
