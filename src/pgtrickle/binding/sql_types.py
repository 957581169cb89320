"""PostgreSQL's types by oid and modifier, domains resolved."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.model.sql_type import SqlType

_RESOLVE = """
    WITH RECURSIVE wanted AS (
        SELECT w.n, w.type_oid, w.modifier, w.type_oid AS base_oid, w.modifier AS base_modifier
          FROM unnest(%(oids)s::oid[], %(modifiers)s::int4[])
               WITH ORDINALITY AS w (type_oid, modifier, n)
        UNION ALL
        SELECT w.n, w.type_oid, w.modifier, t.typbasetype,
               CASE WHEN w.base_modifier >= 0 THEN w.base_modifier ELSE t.typtypmod END
          FROM wanted AS w JOIN pg_catalog.pg_type AS t ON t.oid = w.base_oid
         WHERE t.typtype = 'd'
    )
    SELECT pg_catalog.format_type(w.type_oid, w.modifier),
           CASE WHEN t.typnamespace = 'pg_catalog'::pg_catalog.regnamespace THEN t.typname::text
                ELSE pg_catalog.format('%%I.%%I', n.nspname, t.typname) END,
           t.typcategory::text, w.base_modifier
      FROM wanted AS w JOIN pg_catalog.pg_type AS t ON t.oid = w.base_oid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
     WHERE t.typtype <> 'd'
     ORDER BY w.n
"""


def resolve_types(connection: Connection, types: Sequence[tuple[int, int]]) -> tuple[SqlType, ...]:
    """Return the types for pairs of oid and modifier, in the same order.

    The caller has set ``search_path`` to ``pg_catalog``, so that names print qualified.
    """
    rows = connection.execute(
        _RESOLVE, {"oids": [oid for oid, _ in types], "modifiers": [mod for _, mod in types]}
    ).fetchall()
    return tuple(
        SqlType(display, base, category, *_numeric_modifier(base, modifier))
        for display, base, category, modifier in rows
    )


def _numeric_modifier(base: str, modifier: int) -> tuple[int | None, int | None]:
    """Decode precision and scale; the scale is an 11-bit signed number since PostgreSQL 15."""
    if base != "numeric" or modifier < 4:
        return None, None
    value = modifier - 4
    return (value >> 16) & 0xFFFF, ((value & 0x7FF) ^ 1024) - 1024
