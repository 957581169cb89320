"""Queries over ``pgt_refresh_progress``: how far large refreshes are while they run."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.report import Progress
from pgtrickle.model.text.names import QualifiedName

_SET = """
    INSERT INTO pgtrickle.pgt_refresh_progress AS p
        (pgt_id, stage, rows_read, rows_staged, started_at, updated_at)
    VALUES
        (%(stream_table_id)s, %(stage)s, %(rows_read)s, %(rows_staged)s,
         pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => %(seconds)s),
         pg_catalog.clock_timestamp())
        ON CONFLICT (pgt_id) DO UPDATE
       SET stage = excluded.stage,
           rows_read = excluded.rows_read,
           rows_staged = excluded.rows_staged,
           started_at = excluded.started_at,
           updated_at = excluded.updated_at
"""


def set_progress(
    connection: Connection[TupleRow],
    stream_table_id: int,
    *,
    stage: str,
    rows_read: int,
    rows_staged: int,
    seconds: float,
) -> None:
    """Tell everyone how far a refresh is that has run for ``seconds``."""
    values = {
        "stream_table_id": stream_table_id,
        "stage": stage,
        "rows_read": rows_read,
        "rows_staged": rows_staged,
        "seconds": seconds,
    }
    connection.execute(_SET, values)


def clear_progress(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Forget a refresh that is over."""
    connection.execute(
        "DELETE FROM pgtrickle.pgt_refresh_progress WHERE pgt_id = %s", [stream_table_id]
    )


_FIND = """
    SELECT p.stage, p.rows_read, p.rows_staged,
           EXTRACT(epoch FROM pg_catalog.clock_timestamp() - p.running_since)::pg_catalog.float8
      FROM pgtrickle.running_refreshes() AS p
     WHERE p.stage IS NOT NULL
       AND p.name = pg_catalog.concat_ws('.', pg_catalog.quote_ident(%(schema)s),
                                         pg_catalog.quote_ident(%(name)s))
"""


def find_progress(connection: Connection[TupleRow], name: QualifiedName) -> Progress | None:
    """Return how far the refresh of a stream table is; None if there is no large one."""
    row = connection.execute(_FIND, {"schema": name.schema, "name": name.name}).fetchone()
    return None if row is None else Progress(str(name), *row)
