"""The number of distinct values of columns, from PostgreSQL's statistics."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

# A negative number is a share of the rows.  A column with its own unique index has as many
# values as the table has rows, even before it is analyzed.
_LIST = """
    SELECT c.oid::pg_catalog.int8, a.attname,
           CASE WHEN s.n_distinct > 0 THEN s.n_distinct
                ELSE COALESCE(-s.n_distinct, 1) * greatest(c.reltuples, 1) END
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_catalog.pg_stats AS s
        ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
           AND NOT s.inherited
     WHERE c.oid = ANY (%(relids)s::pg_catalog.oid[])
       AND (s.n_distinct <> 0
            OR EXISTS (SELECT FROM pg_catalog.pg_index AS i
                        WHERE i.indrelid = c.oid AND i.indisunique AND i.indisvalid
                          AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum
                          AND i.indpred IS NULL))
"""


def list_distinct_values(
    connection: Connection[TupleRow], relids: Sequence[int]
) -> dict[int, dict[str, float]]:
    """Return the number of values by table and column; unknown ones are omitted."""
    found: dict[int, dict[str, float]] = {}
    for relid, column, number in connection.execute(_LIST, {"relids": list(relids)}):
        found.setdefault(relid, {})[column] = float(number)
    return found
