"""Delete from a buffer the pairs of changes that cancel out for every consumer.

Two changes may cancel only if every consumer has read both or neither.  The
consumers' frontiers decide this, because a frontier that is stored later sees all that
is visible now.  A consumer that is being refreshed at this moment is the exception: the caller
does not compact the buffer while there is one.

Nothing is merged or rewritten, rows are only deleted.  So three equal insertions stay three rows,
each with its own transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import buffer_of, list_buffer_columns
from pgtrickle.capture.locks import try_lock_buffer
from pgtrickle.capture.windows import window_predicate
from pgtrickle.model.frontier import PgSnapshot

_COUNT = sql.SQL("SELECT pg_catalog.count(*) FROM (SELECT FROM {buffer} LIMIT {limit}) AS b")


def count_rows(connection: Connection[TupleRow], relid: int, limit: int) -> int:
    """Count the rows of a buffer, up to a limit."""
    [(rows,)] = connection.execute(
        _COUNT.format(buffer=_buffer(relid), limit=sql.Literal(limit))
    ).fetchall()
    return int(rows)


# Rows are equal if their text and their storage are equal: 1.0 and 1.00 do not cancel.
_DELETE = sql.SQL("""
    WITH numbered AS MATERIALIZED (
        SELECT b.tableoid AS home, b.ctid AS place, b.__weight AS weight, r.contents, r.printed,
               {windows} AS windows,
               pg_catalog.row_number() OVER (
                   PARTITION BY {windows}, r.printed, b.__weight) AS number
          FROM {buffer} AS b
         CROSS JOIN LATERAL (
                   SELECT {row} AS contents,
                          {row}::pg_catalog.text COLLATE pg_catalog."C" AS printed
               ) AS r
         WHERE b.__weight <> 0
    ), pairs AS MATERIALIZED (
        SELECT p.home AS plus_home, p.place AS plus, m.home AS minus_home, m.place AS minus
          FROM numbered AS p
          JOIN numbered AS m
            ON m.printed = p.printed AND m.number = p.number AND m.windows = p.windows
         WHERE p.weight = 1 AND m.weight = -1 AND {stored_alike}
    ), gone AS MATERIALIZED (
        SELECT plus_home AS home, plus AS place FROM pairs
         UNION ALL
        SELECT minus_home, minus FROM pairs
    )
    DELETE FROM {buffer} AS b USING gone
     WHERE b.tableoid = gone.home AND b.ctid = gone.place
""")
_EXACT = (
    "SET LOCAL extra_float_digits = 3",
    "SET LOCAL datestyle = 'ISO'",
    "SET LOCAL timezone = 'UTC'",
    "SET LOCAL intervalstyle = 'postgres'",
    "SET LOCAL bytea_output = 'hex'",
)


def compact_buffer(
    connection: Connection[TupleRow], relid: int, frontiers: Sequence[PgSnapshot]
) -> int:
    """Delete the pairs of changes that cancel out for every consumer; return how many rows.

    The transaction must be REPEATABLE READ, and ``frontiers`` must be read in it.
    """
    columns = list_buffer_columns(connection, relid)
    if not frontiers or columns is None or not try_lock_buffer(connection, relid):
        return 0
    for setting in _EXACT:
        connection.execute(setting)
    row = sql.SQL("ROW({})").format(
        sql.SQL(", ").join(sql.Identifier("b", name) for name in columns)
    )
    predicates = ", ".join(map(window_predicate, dict.fromkeys(frontiers)))
    windows = sql.SQL(f"ARRAY[{predicates}]")
    alike = "p.contents OPERATOR(pg_catalog.*=) m.contents" if columns else "true"
    return connection.execute(
        _DELETE.format(buffer=_buffer(relid), row=row, windows=windows, stored_alike=sql.SQL(alike))
    ).rowcount


def _buffer(relid: int) -> sql.Identifier:
    name = buffer_of(relid)
    return sql.Identifier(name.schema, name.name)
