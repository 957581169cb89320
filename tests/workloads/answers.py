"""PostgreSQL's own answer to a query, kept from cycle to cycle and compared as a multiset."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

Row = tuple[Any, ...]

_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod)
      FROM pg_attribute
     WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
     ORDER BY attnum
"""


@dataclass(slots=True)
class Answers:
    """The answer of one moment, in a temporary table of this session."""

    connection: Connection[TupleRow]
    stream_table: str
    query: str

    @property
    def _latest(self) -> str:
        return f"answer_{self.stream_table}"

    def ask(self) -> float:
        """Ask PostgreSQL anew; return how many milliseconds that took."""
        self._run(f"DROP TABLE IF EXISTS before_{self._latest}")
        self._run(f"ALTER TABLE IF EXISTS {self._latest} RENAME TO before_{self._latest}")
        began = time.perf_counter()
        self._run(f"CREATE TEMPORARY TABLE {self._latest} AS {self.query}")
        return (time.perf_counter() - began) * 1000

    def changed(self) -> int:
        """Count the rows by which this answer differs from the one before."""
        return len(self._except_all(self._latest, f"before_{self._latest}")) + len(
            self._except_all(f"before_{self._latest}", self._latest)
        )

    def differences(self) -> list[Row]:
        """Return the rows in which the stream table and the answer differ, both ways."""
        missing = self._except_all(self._latest, self.stream_table)
        extra = self._except_all(self.stream_table, self._latest)
        return [("missing", *row) for row in missing] + [("extra", *row) for row in extra]

    def text_differences(self) -> list[Row]:
        """Return the same for the rows as text: a numeric with other digits is another text."""
        latest, mine = _as_text(self._latest), _as_text(self.stream_table)
        missing = self._rows(f"{latest} EXCEPT ALL {mine}")
        extra = self._rows(f"{mine} EXCEPT ALL {latest}")
        return [("missing", *row) for row in missing] + [("extra", *row) for row in extra]

    def columns_differ(self) -> bool:
        """Tell whether names or types of the columns are other than PostgreSQL's."""
        return self._columns(self._latest) != self._columns(self.stream_table)

    def forget(self) -> None:
        """Drop what was kept."""
        self._run(f"DROP TABLE IF EXISTS {self._latest}, before_{self._latest}")

    def _columns(self, table: str) -> list[Row]:
        return self.connection.execute(_COLUMNS, [table]).fetchall()

    def _except_all(self, left: str, right: str) -> list[Row]:
        return self._rows(f"TABLE {left} EXCEPT ALL TABLE {right}")

    def _rows(self, query: str) -> list[Row]:
        return self.connection.execute(query.encode()).fetchall()

    def _run(self, statement: str) -> None:
        self.connection.execute(statement.encode())


def _as_text(table: str) -> str:
    return f"SELECT every::text FROM {table} AS every"
