"""Sources without triggers: materialized views and foreign tables are polled for changes.

All rows are read under the refresh's snapshot and added up, each as two hashes of 64 bits, so the
answer does not depend on their order and counts equal rows.  It tells only whether the source
changed; the new result of a consumer is then computed from all its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName

_ADD_UP = sql.SQL("""
    SELECT pg_catalog.concat_ws(
               ' ', pg_catalog.count(*),
               pg_catalog.sum(pg_catalog.hashtextextended(r.row_text, 0)),
               pg_catalog.sum(pg_catalog.hashtextextended(r.row_text, 1)))
      FROM (SELECT ROW({columns})::pg_catalog.text AS row_text FROM {source}) AS r
""")


def add_up_rows(
    connection: Connection[TupleRow], source: QualifiedName, columns: Sequence[str]
) -> str:
    """Return a checksum of the rows of a source, over some of its columns."""
    listed = sql.SQL(", ").join(map(sql.Identifier, columns))
    [(total,)] = connection.execute(
        _ADD_UP.format(columns=listed, source=sql.Identifier(source.schema, source.name))
    ).fetchall()
    return str(total)
