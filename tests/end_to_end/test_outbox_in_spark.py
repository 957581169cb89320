"""Structured streaming over an outbox: each change is in the result once, also after a restart."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pgtrickle import register_outbox
from pgtrickle.spark.sessions.pair import SparkSessions
from tests.labs.lab import Lab

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def session(spark_sessions: SparkSessions) -> SparkSession:
    found = spark_sessions.large()
    register_outbox(found)
    return found


@pytest.fixture
def stream(postgres_lab: Lab) -> Lab:
    lab = postgres_lab
    lab.run("CREATE TABLE t (id int PRIMARY KEY, v numeric)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.create("copy", "SELECT id, v FROM t")
    lab.trickle.outbox.enable_outbox("copy", inline_threshold_rows=2)
    return lab


def change(lab: Lab, *statements: str) -> None:
    lab.run(*statements)
    lab.trickle.refresh_stream_table("copy")


def options(lab: Lab, **more: str) -> dict[str, str]:
    return {"dsn": lab.trickle.dsn, "stream_table": "public.copy", **more}


def contents(rows: list[Any]) -> Counter[tuple[int, str]]:
    """Apply changes in their order, as a consumer does."""
    held: Counter[tuple[int, str]] = Counter()
    for row in sorted(rows, key=lambda one: (one.outbox_id, one.row_number)):
        for document, weight in ((row.before, -1), (row.after, 1)):
            if document is not None:
                read = json.loads(document, parse_float=str, parse_int=str)
                held[int(read["id"]), read["v"]] += weight
    assert min(held.values(), default=0) >= 0
    return +held


def present(lab: Lab) -> Counter[tuple[int, str]]:
    return Counter((row[0], row[1]) for row in lab.rows("SELECT id, v::text FROM copy"))


def test_a_range_is_read_in_a_batch(stream: Lab, session: SparkSession) -> None:
    for number in range(3):
        change(stream, f"UPDATE t SET v = v + 1.50 WHERE id <= {number + 1}")
    read = session.read.format("pgtrickle")
    found = read.options(**options(stream, starting="2", ending_id="3")).load().collect()
    assert [(row.outbox_id, row.op) for row in sorted(found)] == [(2, "update")] * 2 + [
        (3, "update")
    ] * 2
    whole = read.options(**options(stream, starting="contents")).load().collect()
    assert contents(whole) == present(stream)
    with pytest.raises(Exception, match="ST802"):
        read.options(**options(stream, starting="9")).load().collect()


def test_a_query_to_parquet_has_each_change_once_however_often_it_is_stopped(
    stream: Lab, session: SparkSession, tmp_path: Path
) -> None:
    target, checkpoint = str(tmp_path / "target"), str(tmp_path / "checkpoint")
    more = options(stream, starting="contents", max_entries_per_trigger="2")

    def run() -> None:
        source = session.readStream.format("pgtrickle").options(**more).load()
        writer = source.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(target)
        assert query.awaitTermination(120)

    for number in range(4):
        change(
            stream,
            f"INSERT INTO t VALUES ({10 + number}, 1.{number}0)",
            f"UPDATE t SET v = v + 0.5 WHERE id % 3 = {number % 3}",
        )
        if number != 1:
            run()
    rows = session.read.parquet(target).collect()
    assert contents(rows) == present(stream)
    places = Counter((row.outbox_id, row.row_number) for row in rows if not row.reset)
    assert set(places.values()) == {1}
    # As if the process had died after it wrote the first batch and before it noted that.
    again = str(tmp_path / "again")

    def fail_once(batch: DataFrame, number: int) -> None:
        rows = [row.asDict() for row in batch.collect()]
        (tmp_path / f"batch-{number}.json").write_text(json.dumps(rows, default=str))
        if number == 0 and not (tmp_path / "failed").exists():
            (tmp_path / "failed").touch()
            raise RuntimeError("killed here")

    def follow() -> None:
        source = session.readStream.format("pgtrickle").options(**more).load()
        writer = source.writeStream.foreachBatch(fail_once).option("checkpointLocation", again)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(120)

    with pytest.raises(Exception, match="killed here"):
        follow()
    first = json.loads((tmp_path / "batch-0.json").read_text())
    change(stream, "DELETE FROM t WHERE id = 1", "UPDATE t SET v = 7 WHERE id = 2")
    follow()
    repeated = json.loads((tmp_path / "batch-0.json").read_text())
    assert sorted(row["after"] for row in repeated) == sorted(row["after"] for row in first)
    assert {row["outbox_id"] for row in repeated} == {4}
    later = json.loads((tmp_path / "batch-1.json").read_text())
    assert {row["outbox_id"] for row in later} == {5}
