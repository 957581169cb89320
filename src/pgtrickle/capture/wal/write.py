"""Write collected rows to the change buffers, and tell which columns of a shape fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import WEIGHT_COLUMN, XID_COLUMN, buffer_of
from pgtrickle.capture.wal.messages import Relation
from pgtrickle.capture.wal.rows import NULL, Fit, Projection
from pgtrickle.errors import WalGapError

_COPY = sql.SQL("COPY {buffer} ({columns}) FROM STDIN (FORMAT text, NULL {null}, ENCODING 'UTF8')")


def write_rows(
    connection: Connection[TupleRow], rows: Mapping[Projection, Sequence[bytes]]
) -> None:
    """Append lines to the buffers; the caller commits."""
    for projection, lines in rows.items():
        if not lines:
            continue
        relation = projection.relation
        buffer = buffer_of(relation.relid)
        names = [XID_COLUMN, WEIGHT_COLUMN, *projection.columns]
        statement = _COPY.format(
            buffer=sql.Identifier(buffer.schema, buffer.name),
            columns=sql.SQL(", ").join(map(sql.Identifier, names)),
            null=sql.Literal(NULL.decode()),
        )
        try:
            with connection.cursor().copy(statement) as copy:
                copy.write(b"\n".join(lines) + b"\n")
        except (psycopg.DataError, psycopg.ProgrammingError, psycopg.IntegrityError) as error:
            # A label of an enum that was renamed since, for one: the text no longer reads back.
            raise WalGapError(
                f'could not write changes of "{relation.schema}.{relation.name}" from the log',
                source_relid=relation.relid,
                detail=str(error.diag.message_primary),
                hint="Nothing is to be done: triggers take over, and its readers are rebuilt.",
            ) from error


# Domains are replaced by what they are based on, lengths and precisions left out, as in the buffer.
_LIST_FITTING = """
    WITH RECURSIVE sent AS (
        SELECT s.name, s.typid
          FROM ROWS FROM (pg_catalog.unnest(%(names)s::pg_catalog.text[]),
                          pg_catalog.unnest(%(types)s::pg_catalog.oid[])) AS s (name, typid)
         UNION ALL
        SELECT s.name, t.typbasetype
          FROM sent AS s
          JOIN pg_catalog.pg_type AS t ON t.oid = s.typid AND t.typtype = 'd'
    )
    SELECT a.attname, s.name IS NOT NULL
      FROM pg_catalog.pg_attribute AS a
      LEFT JOIN sent AS s ON s.name = a.attname AND s.typid = a.atttypid
     WHERE a.attrelid = pg_catalog.to_regclass(%(buffer)s) AND a.attnum > 0 AND NOT a.attisdropped
       AND a.attname NOT IN ('__xid', '__weight')
     ORDER BY a.attnum
"""


def find_fit(connection: Connection[TupleRow], relation: Relation) -> Fit:
    """Tell which of the buffer's columns hold what rows of this shape have under the same name."""
    values = {
        "buffer": buffer_of(relation.relid).sql,
        "names": [column.name for column in relation.columns],
        "types": [column.type_oid for column in relation.columns],
    }
    found = connection.execute(_LIST_FITTING, values).fetchall()
    columns = tuple(name for name, fits in found if fits)
    return Fit(columns, complete=len(columns) == len(found))
