"""The functions that the query of a stream table calls, and whether one was replaced."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

_RECORD = """
    UPDATE pgtrickle.pgt_stream_tables
       SET function_hashes = pgtrickle.hash_functions(%(functions)s)
     WHERE pgt_id = %(id)s
"""


def record_functions(
    connection: Connection[TupleRow], stream_table_id: int, functions: Sequence[int]
) -> None:
    """Record the present functions of a query, by oid."""
    known = Jsonb({str(oid): None for oid in functions})
    connection.execute(_RECORD, {"id": stream_table_id, "functions": known})


_LIST_CHANGED = """
    SELECT was.value ->> 0, now.value IS NULL
      FROM pgtrickle.pgt_stream_tables AS s,
           pg_catalog.jsonb_each(s.function_hashes) AS was
      LEFT JOIN pg_catalog.jsonb_each(
               (SELECT pgtrickle.hash_functions(t.function_hashes)
                  FROM pgtrickle.pgt_stream_tables AS t WHERE t.pgt_id = %(id)s)) AS now
        ON now.key = was.key
     WHERE s.pgt_id = %(id)s AND now.value IS DISTINCT FROM was.value
     ORDER BY 1
"""


def list_changed_functions(
    connection: Connection[TupleRow], stream_table_id: int
) -> list[tuple[str, bool]]:
    """Return the functions that changed, each with whether it is gone."""
    return connection.execute(_LIST_CHANGED, {"id": stream_table_id}).fetchall()
