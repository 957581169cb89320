"""Housekeeping while others work: refreshes go on, DuckDB writes beside, and every answer is right.

``PGTRICKLE_LAKE_MEANWHILE`` says how many refreshes there are; the more, the longer it takes.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import duckdb
import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import LeaseHeldError
from pgtrickle.lake.upkeep import compact, merge_files
from pgtrickle.model.lake.sink import LakeCare
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import await_
from tests.fixtures.ducklake import PERSISTENT, lake_client
from tests.fixtures.engines import Borrowed
from tests.lake.shore import COPY, SUMS, Shore

_REFRESHES = int(os.environ.get("PGTRICKLE_LAKE_MEANWHILE", "20"))
_NAMES = ("sums", "copies")
_LONGER_THAN_A_READ = timedelta(minutes=1)
_AT_ONCE = timedelta(0)
_FEW_DELETES = 5


@dataclass(slots=True)
class _Company:
    """Threads that do something again and again until the block ends; any error fails the test."""

    stop: threading.Event = field(default_factory=threading.Event)
    errors: list[str] = field(default_factory=list)
    rounds: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def doing(self, what: str, once: Callable[[], None]) -> Iterator[None]:
        def work() -> None:
            try:
                while not self.stop.is_set():
                    once()
                    self.rounds[what] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is fails the test
                self.errors.append(f"{what}: {error!r}")

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            self.stop.set()
            thread.join()


@dataclass(slots=True)
class _Reader:
    """Compares the copies with the stream tables, both at one moment."""

    connection: psycopg.Connection
    client: duckdb.DuckDBPyConnection

    def compare(self) -> None:
        with self.connection.transaction():
            [(snapshot,)] = self.connection.execute(
                "SELECT max(snapshot_id) FROM lake.ducklake_snapshot"
            ).fetchall()
            stored = {
                name: Counter(self.connection.execute(f"TABLE {name}".encode()).fetchall())
                for name in _NAMES
            }
        for name, rows in stored.items():
            query = f"SELECT * FROM {name} AT (VERSION => {snapshot})"
            try:
                found = Counter(self.client.execute(query).fetchall())
            except duckdb.Error:
                if self._is_kept(snapshot):
                    raise
                continue  # forgotten since
            assert found == rows, f"{name} at {snapshot}"

    def _is_kept(self, snapshot: int) -> bool:
        kept = "SELECT EXISTS (SELECT FROM lake.ducklake_snapshot WHERE snapshot_id = %s)"
        with self.connection.transaction():
            return bool(self.connection.execute(kept, [snapshot]).fetchall()[0][0])


def _plant_orphans(shore: Shore) -> set[str]:
    """Leave a file beside those of each copy, as writers do that were killed an hour ago."""
    orphans = {path.parent / "ducklake-left.parquet" for path in shore.files()}
    for path in orphans:
        path.write_bytes(b"PAR1")
        os.utime(path, (time.time() - 3600,) * 2)
    return {str(path) for path in orphans}


def _refresh(shore: Shore, name: str) -> None:
    while True:
        try:
            shore.trickle.refresh_stream_table(name)
        except LeaseHeldError:  # the copy is being tended
            time.sleep(0.05)
        else:
            return


def _inlined_deletes(shore: Shore) -> list[int]:
    """Return how many deletes each table has in the catalog."""
    tables = shore.tell(
        "SELECT tablename FROM pg_tables"
        " WHERE schemaname = 'lake' AND tablename LIKE 'ducklake_inlined_delete_%'"
    )
    assert tables
    return [shore.tell(f"SELECT count(*) FROM lake.{name}")[0][0] for (name,) in tables]


def _known(shore: Shore) -> set[str]:
    return {
        Path(path).name
        for (path,) in shore.tell(
            "SELECT path FROM lake.ducklake_data_file"
            " UNION SELECT path FROM lake.ducklake_delete_file"
        )
    }


@pytest.mark.timeout(1800)
def test_housekeeping_disturbs_neither_readers_nor_writers(
    shore: Shore, duckdb_engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge_files, "FEWEST", 3)
    monkeypatch.setattr(compact, "INLINE_LIMIT", _FEW_DELETES)
    shore.create("sums", SUMS)
    shore.create("copies", COPY)
    shore.ask("CREATE TABLE theirs (id int)")
    orphans = _plant_orphans(shore)
    dsn = shore.trickle.dsn
    settings = load_settings({}, dsn=dsn, ducklake_catalog_schema="lake")
    cares: list[LakeCare] = []
    company = _Company()
    draw = random.Random(7)

    with ExitStack() as stack:
        keeper = stack.enter_context(
            pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), settings=settings)
        )
        reader = _Reader(
            stack.enter_context(psycopg.connect(dsn, autocommit=True)),
            stack.enter_context(lake_client(dsn, "lake")),
        )
        reader.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other = stack.enter_context(lake_client(dsn, "lake", *PERSISTENT))

        def keep_house() -> None:
            cares.append(keeper.lake.maintain_lake(_LONGER_THAN_A_READ, keep=_AT_ONCE))

        def write_beside() -> None:
            other.execute("INSERT INTO theirs SELECT 1 FROM range(20)")

        for what, once in (
            ("keep house", keep_house),
            ("compare", reader.compare),
            ("write beside", write_beside),
        ):
            stack.enter_context(company.doing(what, once))
        for number in range(_REFRESHES):
            some = draw.randrange(2, 30)
            shore.run(
                f"UPDATE t SET v = v + 1 WHERE id % {some} = 0",
                f"DELETE FROM t WHERE id % {some + 40} = 1 AND id < {100 + number}",
                f"INSERT INTO t VALUES ({1000 + number}, {number % 5}, {number}, 'new')",
            )
            _refresh(shore, _NAMES[number % 2])
        # However the threads took turns, each has worked beside the refreshes or after them.
        await_(lambda: company.errors or len(company.rounds) == 3, 300)

    assert company.errors == []
    last = shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)
    again = shore.trickle.lake.maintain_lake(_AT_ONCE, keep=_AT_ONCE)
    tended = [one for care in (*cares, last, again) for one in care.sinks]
    assert {one.error[:5] for one in tended if one.error} <= {"ST209"}  # a refresh was at it
    assert {path for one in tended for path in one.orphans} == orphans
    assert sum(one.merged for one in tended) > 0
    assert all(number <= _FEW_DELETES for number in _inlined_deletes(shore))
    assert sum(care.expired for care in (*cares, last, again)) > 0
    for name in _NAMES:
        _refresh(shore, name)
        shore.check(name)
        assert shore.trickle.verify_stream_table(name).ok
    assert shore.ask("SELECT count(*) FROM theirs") == [(20 * company.rounds["write beside"],)]
    left = {path.name for path in shore.files() if path.parent.name in _NAMES}
    assert left <= _known(shore)
