"""Which columns of tables have values that no two rows share."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

_LIST = """
    SELECT i.indrelid::pg_catalog.int8,
           pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY a.attname)
      FROM pg_catalog.pg_index AS i
      CROSS JOIN LATERAL pg_catalog.unnest(i.indkey::pg_catalog.int2[])
           WITH ORDINALITY AS k (attnum, place)
      LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = i.indrelid AND a.attnum = k.attnum AND a.attnum > 0
     WHERE i.indrelid = ANY (%(relids)s::pg_catalog.oid[])
       AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
       AND k.place <= i.indnkeyatts
     GROUP BY i.indexrelid, i.indrelid
    HAVING pg_catalog.count(a.attname) = pg_catalog.count(*)
"""


def list_unique_keys(
    connection: Connection[TupleRow], relids: Sequence[int]
) -> dict[int, list[frozenset[str]]]:
    """Return the keys by table; a table without one is left out."""
    found: dict[int, list[frozenset[str]]] = {}
    for relid, columns in connection.execute(_LIST, {"relids": list(relids)}):
        found.setdefault(relid, []).append(frozenset(columns))
    return found
