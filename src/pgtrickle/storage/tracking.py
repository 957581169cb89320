"""Which places of a table a refresh wrote, for those who keep a copy of it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.model.names import quote_identifier


@dataclass(frozen=True, slots=True)
class Tracking:
    """Temporary tables of places (``tid``) and hashed keys (``key``), for one transaction."""

    key: tuple[str, ...]  # columns whose values say which row took the place of which
    deleted: str = '"tracked__deleted"'
    inserted: str = '"tracked__inserted"'

    def returning(self, alias: str) -> str:
        """Return what a statement is to return of each row it writes."""
        names = ", ".join(f"{alias}.{quote_identifier(name)}" for name in self.key)
        key = f"pg_catalog.hashtextextended(ROW({names})::text, 0)" if names else "NULL::bigint"
        return f"{alias}.ctid AS tid, {key} AS key"


def start_tracking(connection: Connection, key: Sequence[str]) -> Tracking:
    """Create the tables in which the transaction notes what it writes."""
    tracking = Tracking(tuple(key))
    for table in (tracking.deleted, tracking.inserted):
        connection.execute(
            f"CREATE TEMPORARY TABLE {table} (tid tid, key bigint) ON COMMIT DROP".encode()
        )
    return tracking
