"""The loop: writes in PostgreSQL, a copy in the lake, readers beside, and back as a source."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import Connection

from pgtrickle.demo.generator import Changes, Generator
from pgtrickle.demo.lake_readers import read_by_duckdb, read_by_spark
from pgtrickle.demo.shop import REGIONS, REVENUE_BY_REGION, load_shop
from pgtrickle.demo.show import Definition, Show
from pgtrickle.model.text.trusted import trusted

if TYPE_CHECKING:
    from pgtrickle.client.trickle import Trickle
    from pgtrickle.demo.live import Display

_NAME = REVENUE_BY_REGION.name
_SOURCE = "revenue_in_lake"
REPORT = Definition(
    "target_report",
    "the lake's rows beside targets in PostgreSQL",
    f"""
    SELECT t.region, t.target, sum(l.orders) AS orders, round(sum(l.revenue)) AS revenue
      FROM targets AS t JOIN {_SOURCE} AS l ON l.region = t.region
     GROUP BY t.region, t.target
    """,
)
_TARGETS = """
    CREATE TABLE targets (region text PRIMARY KEY, target numeric NOT NULL);
"""
_BOARD = f"""
    SELECT r.region, r.in_postgresql, t.orders::bigint AS back_from_the_lake,
           t.revenue::bigint AS revenue, t.target::bigint AS target
      FROM (SELECT region, sum(orders)::bigint AS in_postgresql FROM {_NAME} GROUP BY region) AS r
      LEFT JOIN {REPORT.name} AS t ON t.region = r.region
     ORDER BY r.region
"""


class LakeLoop(Show):
    """From OLTP to the lake and back."""

    rows = "orders"
    size = 50_000
    board = ("orders by region: in PostgreSQL, and back from the lake", _BOARD)

    def __init__(self) -> None:
        self.definitions: tuple[Definition, ...] = ()

    @contextmanager
    def open(self, home: Path) -> Iterator[None]:
        """Make a directory for the files of the lake."""
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="lake-", dir=home.resolve()) as files:
            sink = {"sink": "ducklake", "ducklake_sink_path": files}
            copied = Definition(
                _NAME, "a join with GROUP BY, and its copy in a lake", REVENUE_BY_REGION.query, sink
            )
            self.definitions = (copied,)
            yield

    def load(self, connection: Connection, size: int) -> None:
        """Create the shop, and a target for each region."""
        load_shop(connection, orders=size)
        connection.execute(_TARGETS)
        connection.execute(
            "INSERT INTO targets SELECT region, 1000000 FROM unnest(%s::text[]) AS region",
            [list(REGIONS)],
        )

    def writer(self, dsn: str, seed: int, size: int, changes: Changes) -> Generator:
        """Return the business of the shop."""
        return Generator(dsn, seed, size, changes)

    def prepare(self, trickle: Trickle, display: Display) -> None:
        """Attach the copy as a source, and create the report that reads it."""
        columns = ["region", "product", "orders", "revenue"]
        display.step(f"attaching the lake table main.{_NAME} as the source {_SOURCE}")
        trickle.lake.attach_ducklake_table(_SOURCE, f"main.{_NAME}", columns)
        display.step(f"creating {REPORT.name}: {REPORT.kind}")
        trickle.create_stream_table(REPORT.name, REPORT.query, schedule="1s")
        self.definitions = (*self.definitions, REPORT)

    def close(self, trickle: Trickle, display: Display) -> bool:
        """Read the copy with DuckDB and Spark, and compare."""
        with psycopg.connect(trickle.dsn) as connection:
            query = f"SELECT region, product, orders FROM {_NAME}"
            stored = Counter(connection.execute(trusted(query)).fetchall())
        right = True
        for who, read in (("DuckDB", read_by_duckdb), ("Spark", read_by_spark)):
            found = read(trickle.dsn, _NAME, ("region", "product", "orders"))
            if isinstance(found, str):
                display.step(f"{who} is left out: {found}")
                continue
            equal = _same(found, stored)
            right = right and equal
            told = "the same as in PostgreSQL" if equal else "OTHERS than in PostgreSQL"
            display.step(f"{who} reads {len(found):,} rows from the lake, {told}")
        return right


def _same(found: list[tuple[Any, ...]], stored: Counter[tuple[Any, ...]]) -> bool:
    return Counter(map(tuple, found)) == stored
