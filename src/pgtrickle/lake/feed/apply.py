"""Bring PostgreSQL's rows of a lake table to a later snapshot, by row id.

Rows are staged and compared, byte for byte: a row that only moved to another file is not touched,
so that triggers see exactly what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
from psycopg import Connection

from pgtrickle.lake.feed.csv import as_csv
from pgtrickle.lake.feed.types import postgres_type
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted

ROW_ID = "pgtrickle_row_id"
_IDS_AT_ONCE = 10_000
_NEW, _GONE = "pg_temp.lake_new", "pg_temp.lake_gone"
_OPEN_GUARD = (
    "SELECT pg_catalog.set_config("
    "'pg_trickle.refreshing', %s::pg_catalog.regclass::pg_catalog.oid::pg_catalog.text, true)"
)


@dataclass(frozen=True, slots=True)
class Landed:
    """How many rows were written."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class Landing:
    """The table that holds the rows of a lake table, with its columns as PostgreSQL names them."""

    connection: Connection
    rows: QualifiedName
    columns: tuple[tuple[str, ReadColumn], ...]

    def create(self) -> None:
        """Create the table, without rows."""
        self.connection.execute(trusted(f"CREATE TABLE {self.rows.sql} ({self._definitions})"))

    def fill(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Copy all rows into the empty table, and give it its key."""
        count = self._copy(self.rows.sql, batches)
        self.connection.execute(
            trusted(f"ALTER TABLE {self.rows.sql} ADD PRIMARY KEY ({quote_identifier(ROW_ID)})")
        )
        self.connection.execute(trusted(f"ANALYZE {self.rows.sql}"))
        return count

    def change(self, new: Iterable[pa.RecordBatch], gone: Iterable[int]) -> Landed:
        """Apply inserted rows, and ids of deleted rows."""
        self._stage(new)
        self.connection.execute(
            trusted(
                f"CREATE TEMPORARY TABLE lake_gone ({quote_identifier(ROW_ID)} bigint)"
                " ON COMMIT DROP"
            )
        )
        with self.connection.cursor().copy(trusted(f"COPY {_GONE} FROM STDIN")) as copy:
            ids = iter(gone)
            while some := list(islice(ids, _IDS_AT_ONCE)):
                copy.write("".join(f"{row_id}\n" for row_id in some))
        self.connection.execute(trusted(f"ANALYZE {_GONE}"))
        return self._apply(
            f"{self._id('r')} IN (SELECT {quote_identifier(ROW_ID)} FROM {_GONE}) AND"
        )

    def replace(self, all_rows: Iterable[pa.RecordBatch]) -> Landed:
        """Apply the difference to all rows of the lake table."""
        self._stage(all_rows)
        return self._apply("")

    def _apply(self, gone: str) -> Landed:
        """Delete rows that are gone, update rows that differ, insert missing rows."""
        rows, connection = self.rows.sql, self.connection
        connection.execute(_OPEN_GUARD, [rows])
        same = f"{self._id('n')} = {self._id('r')}"
        names = [quote_identifier(name) for name, _ in self.columns]
        old, new = (", ".join(f"{alias}.{name}" for name in names) for alias in "rn")
        deleted = connection.execute(
            trusted(
                f"DELETE FROM {rows} AS r WHERE {gone}"
                f" NOT EXISTS (SELECT FROM {_NEW} AS n WHERE {same})"
            )
        ).rowcount
        updated = connection.execute(
            trusted(
                f"UPDATE {rows} AS r SET ({', '.join(names)}) = ROW({new}) FROM {_NEW} AS n"
                f" WHERE {same} AND ROW({old})::record OPERATOR(pg_catalog.*<>) ROW({new})::record"
            )
        ).rowcount
        listed = ", ".join([quote_identifier(ROW_ID), *names])
        inserted = connection.execute(
            trusted(
                f"INSERT INTO {rows} ({listed}) SELECT {self._id('n')}, {new} FROM {_NEW} AS n"
                f" WHERE NOT EXISTS (SELECT FROM {rows} AS r WHERE {same})"
            )
        ).rowcount
        return Landed(inserted, updated, deleted)

    def _stage(self, batches: Iterable[pa.RecordBatch]) -> None:
        self.connection.execute(
            trusted(f"CREATE TEMPORARY TABLE lake_new ({self._definitions}) ON COMMIT DROP")
        )
        self._copy(_NEW, batches)
        self.connection.execute(
            trusted(f"ALTER TABLE {_NEW} ADD PRIMARY KEY ({quote_identifier(ROW_ID)})")
        )
        self.connection.execute(trusted(f"ANALYZE {_NEW}"))

    def _copy(self, table: str, batches: Iterable[pa.RecordBatch]) -> int:
        count = 0
        statement = f"COPY {table} FROM STDIN (FORMAT csv, ENCODING 'UTF8')"
        with self.connection.cursor().copy(trusted(statement)) as copy:
            for batch in batches:
                if batch.num_rows:
                    copy.write(as_csv(batch))
                    count += batch.num_rows
        return count

    def _id(self, alias: str) -> str:
        return f"{alias}.{quote_identifier(ROW_ID)}"

    @property
    def _definitions(self) -> str:
        return ", ".join(
            [
                f"{quote_identifier(ROW_ID)} bigint NOT NULL",
                *(f"{quote_identifier(name)} {postgres_type(one)}" for name, one in self.columns),
            ]
        )


def landing_columns(
    names: Sequence[str], columns: Sequence[ReadColumn]
) -> tuple[tuple[str, ReadColumn], ...]:
    """Pair the names in PostgreSQL with the columns of the lake."""
    return tuple(zip(names, columns, strict=True))
