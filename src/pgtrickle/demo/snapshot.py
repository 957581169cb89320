"""The accident: a snapshot is taken, rows are lost, and the snapshot brings them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import Connection

from pgtrickle.demo.generator import Changes, Generator
from pgtrickle.demo.shop import REVENUE_BY_REGION, load_shop
from pgtrickle.demo.show import Show
from pgtrickle.model.stream_table import Action
from pgtrickle.model.text.trusted import trusted

if TYPE_CHECKING:
    from pgtrickle.client.trickle import Trickle
    from pgtrickle.demo.live import Display

_NAME = REVENUE_BY_REGION.name
# What somebody does who has the rights of the owner, and takes the wrong window for the right one.
_LOSE = (
    f"ALTER TABLE {_NAME} DISABLE TRIGGER USER",
    f"DELETE FROM {_NAME} WHERE region IN ('north', 'south')",
    f"UPDATE {_NAME} SET revenue = 0 WHERE region = 'east'",
    f"ALTER TABLE {_NAME} ENABLE TRIGGER USER",
)
_ORDER = "INSERT INTO orders (customer_id, product_id, quantity) VALUES (1, 1, 7)"


class Accident(Show):
    """The shop, in which somebody deletes what he should not."""

    rows = "orders"
    size = 100_000
    seconds = 5
    definitions = (REVENUE_BY_REGION,)

    def load(self, connection: Connection, size: int) -> None:
        """Create the shop."""
        load_shop(connection, orders=size)

    def writer(self, dsn: str, seed: int, size: int, changes: Changes) -> Generator:
        """Return the business of the shop."""
        return Generator(dsn, seed, size, changes)

    def close(self, trickle: Trickle, display: Display) -> bool:
        """Take, lose, restore, verify."""
        taken = str(trickle.snapshots.snapshot_stream_table(_NAME))
        [listed] = trickle.snapshots.list_snapshots(_NAME)
        display.step(f"TAKE: the snapshot {taken} has {listed.row_count:,} rows")

        with psycopg.connect(trickle.dsn, autocommit=True) as connection:
            for statement in _LOSE:
                connection.execute(trusted(statement))
        lost = trickle.verify_stream_table(_NAME)
        display.step(
            f"LOSE: somebody deletes and changes rows: {lost.missing:,} are missing,"
            f" {lost.extra:,} are wrong; then an order comes in"
        )
        with psycopg.connect(trickle.dsn, autocommit=True) as connection:
            connection.execute(_ORDER)

        restored = trickle.snapshots.restore_from_snapshot(_NAME, taken)
        display.step(
            f"RESTORE: {restored.rows_inserted:,} rows put back, {restored.rows_deleted:,} taken"
            f" away, in {restored.duration_ms:,.0f} ms"
        )
        after = trickle.refresh_stream_table(_NAME)
        display.step(f"REFRESH: {after.action.value}, {after.reason}: it goes on from the snapshot")

        check = trickle.verify_stream_table(_NAME)
        told = "equal to PostgreSQL's own answer" if check.ok else "DIFFERENT"
        display.step(f"VERIFY: {check.rows:,} rows, {told}")
        trickle.snapshots.drop_snapshot(taken)
        went_on = after.action is Action.DIFFERENTIAL and restored.rows_inserted > 0
        return check.ok and not lost.ok and went_on
