"""Random refreshes: after each, DuckDB answers as PostgreSQL does; at the end, history does too.

``PGTRICKLE_LAKE_REFRESHES`` says how many, ``PGTRICKLE_LAKE_SEED`` which; ``make lake-random`` runs
a thousand.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pgtrickle.lake.upkeep import merge_files
from pgtrickle.service.sinks.ducklake import delivery as lake_sink
from tests.fakes.spreading import SpreadingEngine
from tests.fixtures.ducklake import PERSISTENT, lake_client
from tests.lake.shore import Shore, open_shore
from tests.seeds import seed_of

_REFRESHES = int(os.environ.get("PGTRICKLE_LAKE_REFRESHES", "150"))
_SEED = seed_of("PGTRICKLE_LAKE_SEED", 7)

_TABLES = {
    "groups": "SELECT k, sum(n) AS total, count(*) AS rows, min(d) AS first FROM r GROUP BY k",
    "plain": "SELECT k, n, s, d, u, b, x, z FROM r",
    "few": "SELECT k, s, a, o, x FROM r WHERE n > 50",
}
_CREATE = (
    "CREATE TABLE r (id serial PRIMARY KEY, k int, n numeric, s text, d timestamp, u uuid,"
    " b bytea, a int[], x double precision, z timestamptz, o boolean)"
)


def _value(draw: random.Random) -> str:
    scale = draw.choice([0, 1, 2, 2, 2, 3])
    number = draw.choice(["NULL", f"{draw.uniform(-100, 100):.{scale}f}", "1", "0.10"])
    text = draw.choice(["NULL", "''", "'same'", f"'t{draw.randrange(30)}'", "'q\"u,o\nte'"])
    moment = draw.choice(["NULL", f"TIMESTAMP '2026-01-01' + {draw.randrange(99)} * INTERVAL '1h'"])
    code = draw.choice(["NULL", f"md5('{draw.randrange(9)}')::uuid"])
    data = draw.choice(["NULL", "''", f"decode('{draw.randrange(16, 256):x}', 'hex')"])
    array = draw.choice(["NULL", "'{}'", f"'{{1,NULL,{draw.randrange(5)}}}'"])
    float_ = draw.choice(["NULL", "'NaN'", "'-Infinity'", "-0.0", repr(draw.uniform(-1, 1))])
    instant = draw.choice(["NULL", f"'2026-03-01 00:00:00+0{draw.randrange(9)}'"])
    truth = draw.choice(["NULL", "true", "false"])
    return (
        f"{draw.randrange(12)}, {number}, {text}, {moment}, {code}, {data}, {array}, {float_},"
        f" {instant}, {truth}"
    )


def _statements(draw: random.Random) -> Iterator[str]:
    for _ in range(draw.choice([0, 1, 1, 2, 3])):
        few, many = draw.randrange(1, 6), draw.randrange(50, 3000)
        where = draw.choice(
            [f"k = {draw.randrange(12)}", f"id % {draw.randrange(2, 40)} = 0", "n IS NULL"]
        )
        kind = draw.choices(["insert", "bulk", "update", "delete", "move", "empty"],
                            [8, 1, 6, 4, 3, 0.2])[0]  # fmt: skip
        match kind:
            case "insert":
                rows = ", ".join(f"({_value(draw)})" for _ in range(few))
                yield f"INSERT INTO r (k, n, s, d, u, b, a, x, z, o) VALUES {rows}"
            case "bulk":
                yield (
                    f"INSERT INTO r (k, n, s) SELECT i % 12, i / 4.0, 'b' || i % 7"
                    f" FROM generate_series(1, {many}) AS i"
                )
            case "update":
                yield f"UPDATE r SET n = n + 1, s = s || 'x' WHERE {where}"
            case "delete":
                yield f"DELETE FROM r WHERE {where}"
            case "move":
                yield f"UPDATE r SET k = (k + 1) % 12 WHERE {where}"
            case _:
                yield "TRUNCATE r"
    if draw.random() < 0.1:
        yield f"VACUUM {draw.choice(list(_TABLES))}"


def _hashable(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(_comparable, row)) for row in rows)


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return repr(value) if isinstance(value, float) else value  # NaN is no equal of itself


def _in_lake(shore: Shore, name: str, version: int | None = None) -> Counter[tuple[Any, ...]]:
    at = "" if version is None else f" AT (VERSION => {version})"
    return _hashable(shore.ask(f"SELECT * FROM {name}{at}"))


def _compact(shore: Shore) -> None:
    """Merge the small files of every copy, and let the replaced ones go at once."""
    tended = shore.trickle.lake.maintain_lake(timedelta(0)).sinks
    assert [one.error for one in tended] == [None] * len(_TABLES)


@dataclass(slots=True)
class _Others:
    """A DuckDB client that writes to another table of the catalog, whenever it is let."""

    may_write: threading.Event = field(default_factory=threading.Event)
    has_written: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    commits: int = 0
    rows: int = 0
    error: str | None = None

    def write(self, dsn: str) -> None:
        """Insert and delete by turns, into the catalog itself and into files."""
        try:
            with lake_client(dsn, "lake", *PERSISTENT) as client:
                while not self.stop.is_set():
                    if self.may_write.wait(0.05):
                        self._commit(client)
        except Exception as error:  # noqa: BLE001 - whatever it is fails the test
            self.error = str(error)

    def _commit(self, client: duckdb.DuckDBPyConnection) -> None:
        self.commits += 1
        rows = 50 if self.commits % 2 else 1
        client.execute(f"INSERT INTO theirs SELECT {self.commits} FROM range({rows})")
        self.rows += rows
        if self.commits % 5 == 0:
            client.execute(f"DELETE FROM theirs WHERE id = {self.commits}")
            self.rows -= rows
        self.has_written.set()


@contextmanager
def _others_writing(dsn: str) -> Iterator[_Others]:
    others = _Others()
    thread = threading.Thread(target=others.write, args=[dsn])
    others.may_write.set()
    thread.start()
    try:
        assert others.has_written.wait(120), others.error
        yield others
    finally:
        others.stop.set()
        thread.join()
    assert others.error is None


@pytest.mark.timeout(1800)
def test_lake_equals_the_table_after_each_of_many_random_refreshes(
    shore: Shore, monkeypatch: pytest.MonkeyPatch
):
    _refresh_at_random(shore, monkeypatch)


@pytest.mark.timeout(1800)
def test_lake_equals_the_table_when_many_hands_write_what_is_large(
    database: str, spreading: SpreadingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lake_sink, "largest_in_place", lambda _: 1000)
    with open_shore(database, spreading, tmp_path) as shore:
        _refresh_at_random(shore, monkeypatch)
    print(f"{len(spreading.spreads)} deliveries by many hands")


def _refresh_at_random(shore: Shore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_files, "FEWEST", 3)
    print(f"PGTRICKLE_LAKE_SEED={_SEED}")
    draw = random.Random(_SEED)
    shore.run(_CREATE)
    shore.ask("CREATE TABLE theirs (id int)")
    for name, query in _TABLES.items():
        shore.trickle.create_stream_table(name, query, sink="ducklake")
    history: list[tuple[str, int, Counter[tuple[Any, ...]]]] = []

    with _others_writing(shore.trickle.dsn) as others:
        for step in range(_REFRESHES):
            shore.run(*_statements(draw))
            name = draw.choice(list(_TABLES))
            if draw.random() < 0.2:
                others.may_write.set()
            shore.trickle.refresh_stream_table(name)
            stored = _hashable(shore.tell(f"TABLE {name}"))
            assert _in_lake(shore, name) == stored, f"{name} after {step} refreshes"
            assert shore.ask(f"SELECT count(*) FROM {name}") == [(stored.total(),)]
            if draw.random() < 0.1:
                _compact(shore)
            others.may_write.clear()
            [(snapshot,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
            history.append((name, snapshot, stored))

    print(f"{others.commits} commits of DuckDB meanwhile")
    assert shore.ask("SELECT count(*) FROM theirs") == [(others.rows,)]
    assert {one.status.value for one in shore.trickle.lake.ducklake_sink_status()} == {"DELIVERED"}
    for name, snapshot, stored in draw.sample(history, min(60, len(history))):
        assert _in_lake(shore, name, snapshot) == stored, f"{name} at {snapshot}"
    for name in _TABLES:
        _check_changes(shore, name, history)


def _check_changes(
    shore: Shore, name: str, history: list[tuple[str, int, Counter[tuple[Any, ...]]]]
) -> None:
    """Add up what ``table_changes`` tells between two refreshes: the second must come out."""
    own = [(snapshot, stored) for table, snapshot, stored in history if table == name]
    reshaped = {
        snapshot
        for (snapshot,) in shore.tell(
            "SELECT v.begin_snapshot FROM lake.ducklake_schema_versions AS v"
            " JOIN lake.ducklake_table AS t USING (table_id)"
            f" WHERE t.table_name = '{name}'"
        )
    }
    for (first, before), (last, after) in pairwise(own):
        if last == first or any(first < snapshot <= last for snapshot in reshaped):
            continue
        total = Counter(before)
        for change, *row in shore.ask(
            f"SELECT change_type, * EXCLUDE (snapshot_id, rowid, change_type)"
            f" FROM table_changes('{name}', {first + 1}, {last})"
        ):
            [key] = _hashable([tuple(row)])
            total[key] += 1 if change in {"insert", "update_postimage"} else -1
        assert (+total, -total) == (after, Counter()), f"{name} from {first} to {last}"
