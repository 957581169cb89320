"""The two ends of a delivery: where the rows are, and where the catalog of the lake is.

They are one and the same connection, in one transaction, where the catalog is in the database of
the stream table; and two where it is in another.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.lake.row_map import RowMap

_SHOWN = "pg_temp.lake__gone"
_COLUMNS = "file_id, position"


@dataclass(frozen=True, slots=True)
class Ends:
    """The connections of a delivery."""

    local: Connection
    lake: Connection

    @property
    def apart(self) -> bool:
        """Whether they are of two databases, which commit one after the other."""
        return self.local is not self.lake


def show_gone(ends: Ends, rows: RowMap) -> str:
    """Return the table of the rows that are gone, as SQL for the end that has the catalog."""
    if not ends.apart:
        return rows.gone
    ends.lake.execute(
        f"CREATE TEMPORARY TABLE {_SHOWN} (file_id bigint NOT NULL, position bigint NOT NULL)"
        " ON COMMIT DROP".encode()
    )
    with (
        ends.local.cursor().copy(f"COPY {rows.gone} ({_COLUMNS}) TO STDOUT".encode()) as read,
        ends.lake.cursor().copy(f"COPY {_SHOWN} ({_COLUMNS}) FROM STDIN".encode()) as written,
    ):
        for block in read:
            written.write(block)
    return _SHOWN
