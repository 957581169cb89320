"""Write collected rows to the change buffers, and find the columns of a shape that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Self

import psycopg
from psycopg import Connection, Copy, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import WEIGHT_COLUMN, XID_COLUMN, buffer_of
from pgtrickle.capture.wal.buffer_rows import NULL, Fit, Projection
from pgtrickle.capture.wal.messages import Relation
from pgtrickle.errors import WalGapError

_COPY = sql.SQL("COPY {buffer} ({columns}) FROM STDIN (FORMAT text, NULL {null}, ENCODING 'UTF8')")


class BufferWriter:
    """Appends lines to the change buffers, inside a transaction that the caller commits.

    COPY stays open between batches of lines of the same table, so that the server stores
    rows while the next ones are decoded.  Everything is written when the block ends.
    """

    def __init__(self, connection: Connection[TupleRow]) -> None:
        self._connection = connection
        self._open = ExitStack()
        self._projection: Projection | None = None
        self._copy: Copy | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._finish()
            return
        with suppress(psycopg.Error):  # the caller's error tells why the copy is given up
            self._open.__exit__(kind, error, trace)

    def write(self, rows: Mapping[Projection, Sequence[bytes]]) -> None:
        """Append some lines."""
        for projection, lines in rows.items():
            if lines:
                copy = self._begin(projection)
                with _translated(projection):
                    copy.write(b"\n".join(lines) + b"\n")

    def find_fit(self, relation: Relation) -> Fit:
        """Return the columns of a buffer that rows of a shape have under the same name."""
        self._finish()
        return find_fit(self._connection, relation)

    def _begin(self, projection: Projection) -> Copy:
        if self._copy is None or self._projection is not projection:
            self._finish()
            copying = self._connection.cursor().copy(_statement(projection))
            self._copy, self._projection = self._open.enter_context(copying), projection
        return self._copy

    def _finish(self) -> None:
        projection, self._projection, self._copy = self._projection, None, None
        if projection is not None:
            with _translated(projection):
                self._open.close()


def _statement(projection: Projection) -> sql.Composed:
    buffer = buffer_of(projection.relation.relid)
    names = [XID_COLUMN, WEIGHT_COLUMN, *projection.columns]
    return _COPY.format(
        buffer=sql.Identifier(buffer.schema, buffer.name),
        columns=sql.SQL(", ").join(map(sql.Identifier, names)),
        null=sql.Literal(NULL.decode()),
    )


@contextmanager
def _translated(projection: Projection) -> Iterator[None]:
    relation = projection.relation
    try:
        yield
    except (psycopg.DataError, psycopg.ProgrammingError, psycopg.IntegrityError) as error:
        # For example a label of an enum that was renamed since: its text is no longer valid.
        raise WalGapError(
            f'could not write changes of "{relation.schema}.{relation.name}" from the log',
            source_relid=relation.relid,
            detail=str(error.diag.message_primary),
            hint="No action is needed: triggers take over, and its readers are rebuilt.",
        ) from error


# Domains are replaced by their base types, lengths and precisions omitted, as in the buffer.
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
    """Return the columns of the buffer that rows of this shape have under the same name."""
    values = {
        "buffer": buffer_of(relation.relid).sql,
        "names": [column.name for column in relation.columns],
        "types": [column.type_oid for column in relation.columns],
    }
    found = connection.execute(_LIST_FITTING, values).fetchall()
    columns = tuple(name for name, fits in found if fits)
    return Fit(columns, complete=len(columns) == len(found))
