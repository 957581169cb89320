"""A lake that the attacker may write to as any DuckDB client does: by the tables of its catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.settings import load_settings
from tests.fixtures.engines import Borrowed
from tests.security.bench import REVENUE, Bench

TABLE = "shop.revenue"


@dataclass(slots=True)
class LakeBench:
    """A stream table of the owner's with a copy in a lake, and files that are none of it."""

    bench: Bench
    trickle: Trickle
    path: Path  # of the lake
    outside: Path

    def attack(self, *statements: str) -> None:
        """Run statements as the attacker."""
        self.bench.run("attacker", *statements)

    def change(self) -> None:
        """Change a source, refresh, and so deliver."""
        self.bench.run("writer", "UPDATE shop.orders SET amount = amount + 1")
        self.trickle.refresh_stream_table(TABLE)

    def sink_error(self) -> str:
        """Return why the last delivery failed."""
        [status] = self.trickle.lake.ducklake_sink_status()
        return status.last_error or ""

    def tidy(self) -> str:
        """Keep house, as a daemon does; return what went wrong."""
        [care] = self.trickle.lake.maintain_lake(timedelta(0)).sinks
        return care.error or ""

    def victim(self, name: str = "ducklake-victim.parquet") -> Path:
        """Make a file of somebody else's, outside the lake, with a secret in it."""
        path = self.outside / name
        pq.write_table(pa.table({"region": ["secret"], "total": ["1"]}), path)
        return path

    def files(self) -> list[Path]:
        """Return the files of the lake."""
        return sorted(self.path.rglob("*.parquet"))

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Ask as the owner."""
        return self.bench.open("owner").execute(query.encode()).fetchall()


@contextmanager
def a_lake(bench: Bench, directory: Path, **settings: Any) -> Iterator[LakeBench]:
    """Make the lake, and open its catalog to the attacker."""
    outside = directory / "outside"
    outside.mkdir()
    bench.run("admin", "CREATE SCHEMA lake AUTHORIZATION {owner}")
    dsn = bench.dsn_of("owner")
    loaded = load_settings({}, dsn=dsn, ducklake_catalog_schema="lake", **settings)
    path = directory / "lake"
    with pgtrickle.connect(
        dsn, engine=Borrowed(bench.engine), settings=loaded, init=True
    ) as trickle:
        trickle.create_stream_table(
            TABLE, REVENUE, sink="ducklake", ducklake_sink_path=str(path), refresh_mode="AUTO"
        )
        bench.run(
            "owner",
            "GRANT USAGE ON SCHEMA lake TO {attacker}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lake TO {attacker}",
        )
        yield LakeBench(bench, trickle, path, outside)


def link(target: Path, place: Path) -> Path:
    """Put a symbolic link somewhere."""
    place.symlink_to(target)
    return place
