"""Windows of changes over the TPC-H tables, as large as a benchmark asks for."""

from __future__ import annotations

from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

_SCRIPT = Path(__file__).with_name("changes.sql")
# Rows that change in one window at a share of 1, by scale factor 1: orders and lineitem, customer,
# part, partsupp and supplier.
ROWS_AT_FULL_SHARE = 1_500_000 + 6_000_000 + 150_000 + 200_000 + 800_000 + 10_000


def change(connection: Connection[TupleRow], share: float, number: int) -> None:
    """Change about ``share`` of the rows of every table; ``number`` tells windows apart."""
    script = _SCRIPT.read_text().replace(":share", repr(share)).replace(":round", str(number))
    connection.execute(script.encode())


def share_for_rows(rows: int, scale: float) -> float:
    """Return the share at which a window changes about ``rows`` rows."""
    return rows / (ROWS_AT_FULL_SHARE * scale)
