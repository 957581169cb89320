"""The unique keys of tables."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

_LIST = """
    SELECT i.indrelid::pg_catalog.int8,
           pg_catalog.array_agg(a.attname::pg_catalog.text ORDER BY a.attname),
           pg_catalog.bool_and(a.attnotnull)
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
    """Return the keys by table; a table without one is omitted."""
    found: dict[int, list[frozenset[str]]] = {}
    for relid, columns, _ in connection.execute(_LIST, {"relids": list(relids)}):
        found.setdefault(relid, []).append(frozenset(columns))
    return found


def list_keys_without_null(
    connection: Connection[TupleRow], relids: Sequence[int]
) -> dict[int, list[frozenset[str]]]:
    """Return only keys of columns that are NOT NULL: two rows may both have a NULL in others."""
    found: dict[int, list[frozenset[str]]] = {}
    for relid, columns, filled in connection.execute(_LIST, {"relids": list(relids)}):
        if filled:
            found.setdefault(relid, []).append(frozenset(columns))
    return found
