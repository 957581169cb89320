"""Record the places of a table that a refresh wrote, for copies of the table elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class Tracking:
    """Temporary tables of places (``tid``) and hashed keys (``key``), for one transaction."""

    key: tuple[str, ...]  # columns whose values identify a replaced row
    deleted: str = '"tracked__deleted"'
    inserted: str = '"tracked__inserted"'

    def returning(self, alias: str) -> str:
        """Return the RETURNING clause of a statement that writes rows."""
        names = ", ".join(f"{alias}.{quote_identifier(name)}" for name in self.key)
        key = f"pg_catalog.hashtextextended(ROW({names})::text, 0)" if names else "NULL::bigint"
        return f"{alias}.ctid AS tid, {key} AS key"


def start_tracking(connection: Connection, key: Sequence[str]) -> Tracking:
    """Create the tables in which the transaction records its writes."""
    tracking = Tracking(tuple(key))
    for table in (tracking.deleted, tracking.inserted):
        connection.execute(
            trusted(f"CREATE TEMPORARY TABLE {table} (tid tid, key bigint) ON COMMIT DROP")
        )
    return tracking
