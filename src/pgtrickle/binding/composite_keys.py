"""Which composite types can be keys: those whose equal values have equal texts.

Stored rows are compared by the text of such a key.  (1.0) and (1.00) are one group for
PostgreSQL, but two texts; rows of integers, texts, dates and numerics of a declared scale are as
good as their text.
"""

from __future__ import annotations

from collections.abc import Collection

from psycopg import Connection

from pgtrickle.model.sql_type import CANONICAL_TEXT

_ONE_TEXT = CANONICAL_TEXT | {
    "bool", "int2", "int4", "int8", "oid", "name", "text", "varchar", "date", "timestamp",
    "timestamptz",
}  # fmt: skip
_OTHERS = """
    WITH RECURSIVE parts (root, type, modifier, collated) AS (
        SELECT r.name, pg_catalog.to_regtype(r.name)::pg_catalog.oid, -1, 0::pg_catalog.oid
          FROM pg_catalog.unnest(%(names)s::text[]) AS r (name)
        UNION
        SELECT p.root, inner_part.type, inner_part.modifier, inner_part.collated
          FROM parts AS p JOIN pg_catalog.pg_type AS t ON t.oid = p.type
         CROSS JOIN LATERAL (
               SELECT a.atttypid, a.atttypmod, a.attcollation FROM pg_catalog.pg_attribute AS a
                WHERE a.attrelid = t.typrelid AND t.typtype = 'c'
                  AND a.attnum > 0 AND NOT a.attisdropped
                UNION ALL
               SELECT t.typelem, p.modifier, p.collated WHERE t.typcategory = 'A'
                UNION ALL
               SELECT t.typbasetype,
                      CASE WHEN p.modifier >= 0 THEN p.modifier ELSE t.typtypmod END, p.collated
                WHERE t.typtype = 'd'
               ) AS inner_part (type, modifier, collated)
    )
    SELECT DISTINCT p.root
      FROM parts AS p LEFT JOIN pg_catalog.pg_type AS t ON t.oid = p.type
      LEFT JOIN pg_catalog.pg_collation AS c ON c.oid = p.collated
     WHERE t.oid IS NULL OR NOT COALESCE(c.collisdeterministic, true)
        OR NOT (t.typtype IN ('c', 'd', 'e') OR t.typcategory = 'A'
                OR t.typname = 'numeric' AND p.modifier >= 0
                   AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace
                OR t.typname = ANY (%(one_text)s::text[])
                   AND t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace)
"""


def without_one_text(connection: Connection, types: Collection[str]) -> frozenset[str]:
    """Return those of some composite types of which equal values may have several texts."""
    if not types:
        return frozenset()
    wanted = {"names": list(types), "one_text": sorted(_ONE_TEXT)}
    return frozenset(name for (name,) in connection.execute(_OTHERS, wanted))
