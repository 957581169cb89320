"""The two ends of a delivery: the database of the rows, and that of the lake's catalog.

They are the same connection, in one transaction, if the catalog is in the database of
the stream table, and two otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.lake.write.row_map import RowMap
from pgtrickle.model.text.trusted import trusted

_SHOWN = "pg_temp.lake__gone"
_COLUMNS = "file_id, position"


@dataclass(frozen=True, slots=True)
class Ends:
    """The connections of a delivery."""

    local: Connection
    lake: Connection

    @property
    def apart(self) -> bool:
        """Whether there are two databases, which commit one after the other."""
        return self.local is not self.lake


def show_gone(ends: Ends, rows: RowMap) -> str:
    """Return the table of deleted rows, as SQL for the end that has the catalog."""
    if not ends.apart:
        return rows.gone
    ends.lake.execute(
        trusted(
            f"CREATE TEMPORARY TABLE {_SHOWN} (file_id bigint NOT NULL, position bigint NOT NULL)"
            " ON COMMIT DROP"
        )
    )
    with (
        ends.local.cursor().copy(trusted(f"COPY {rows.gone} ({_COLUMNS}) TO STDOUT")) as read,
        ends.lake.cursor().copy(trusted(f"COPY {_SHOWN} ({_COLUMNS}) FROM STDIN")) as written,
    ):
        for block in read:
            written.write(block)
    return _SHOWN
