"""Large refreshes: executors read, compute and stage; nothing of the data is in the driver.

The setting ``large_read_bytes`` is so low here that a few thousand rows count as large.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.model.report import Progress, RefreshReport
from pgtrickle.ports import Engine
from pgtrickle.settings import Settings

_SHOP = """
    CREATE TABLE customers (id integer PRIMARY KEY, region text, credit numeric);
    CREATE TABLE orders (
        id bigint PRIMARY KEY, customer_id integer, amount numeric(12, 2), placed date
    );
    CREATE INDEX ON orders (customer_id);
    INSERT INTO customers SELECT i, 'region ' || i % 7, i * 1.5 FROM generate_series(1, 900) AS i;
    INSERT INTO orders
    SELECT i, 1 + i % 1000, i * 0.25, date '2026-01-01' + i % 300
      FROM generate_series(1, 12000) AS i;
    ANALYZE customers, orders;
"""
_CHANGE = """
    UPDATE orders SET amount = amount + 1, customer_id = 1 + (customer_id * 7) % 1000
     WHERE id % 3 = 0;
    DELETE FROM orders WHERE id % 11 = 5;
    INSERT INTO orders SELECT i, 1 + i % 1000, 3, NULL FROM generate_series(20001, 24000) AS i;
    UPDATE customers SET region = 'moved', credit = NULL WHERE id % 5 = 0;
"""

_JOIN = """
    SELECT o.id, o.amount, c.region, c.credit * o.amount AS weighed
      FROM orders AS o JOIN customers AS c ON c.id = o.customer_id
"""
_GROUPED = """
    SELECT c.region, count(*) AS n, sum(o.amount * c.credit) AS total, max(o.placed) AS latest
      FROM orders AS o JOIN customers AS c ON c.id = o.customer_id GROUP BY c.region
"""
# The inner aggregate has a group for each customer: its changes are large themselves.
_NESTED = """
    SELECT c.region, sum(per.total) AS total, count(*) AS customers
      FROM (SELECT customer_id, sum(amount) AS total, count(*) AS n FROM orders GROUP BY 1) AS per
      JOIN customers AS c ON c.id = per.customer_id
     WHERE per.n > 2 GROUP BY c.region
"""
_OUTER = """
    SELECT c.id, c.region, o.id AS order_id FROM customers AS c
      LEFT JOIN orders AS o ON o.customer_id = c.id
"""


@pytest.fixture
def large_trickle(database: str, spark_engine: Engine) -> Iterator[Trickle]:
    settings = Settings(large_read_bytes=20_000, progress_seconds=0.05)
    with pgtrickle.connect(database, engine=spark_engine, settings=settings) as trickle:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(_SHOP)
        yield trickle


def _change(trickle: Trickle, script: str) -> None:
    with psycopg.connect(trickle.dsn, autocommit=True) as connection:
        connection.execute(script.encode())


def _in_parts(report: RefreshReport) -> dict[str, int]:
    """Return the rows of the reads that executors made, by source and kind."""
    return {
        f"{read.source} {read.kind}": read.rows
        for read in report.reads
        if read.bounded_by.endswith("parts")
    }


def _leftovers(trickle: Trickle) -> list[tuple[str]]:
    with psycopg.connect(trickle.dsn) as connection:
        return connection.execute(
            "SELECT relname FROM pg_class WHERE relname LIKE 'staged%'"
        ).fetchall()


@pytest.mark.parametrize("query", [_JOIN, _GROUPED, _NESTED, _OUTER])
def test_a_large_refresh_is_right_and_leaves_nothing_behind(
    large_trickle: Trickle, query: str
) -> None:
    first = large_trickle.create_stream_table("t", query, refresh_mode="DIFFERENTIAL")
    assert first is not None
    assert _in_parts(first)["public.orders full"] == 12_000

    _change(large_trickle, _CHANGE)
    second = large_trickle.refresh_stream_table("t")

    assert second.action.value == "DIFFERENTIAL"
    assert _in_parts(second)["public.orders changes"] > 10_000
    assert large_trickle.verify_stream_table("t").ok
    assert _leftovers(large_trickle) == []

    _change(large_trickle, "DELETE FROM orders WHERE id % 2 = 0")
    full = large_trickle.refresh_stream_table("t", full=True)

    assert _in_parts(full)["public.orders full"] > 0
    assert large_trickle.verify_stream_table("t").ok


_SELECTED = """
    SELECT customer_id, sum(amount) AS total FROM orders
     WHERE id % 4000 = 7 OR id > 100000000 GROUP BY customer_id
"""


def test_little_of_a_large_table_is_read_by_the_driver(large_trickle: Trickle) -> None:
    """Whether a read is large is a matter of what it brings, not of the table's file."""
    first = large_trickle.create_stream_table("t", _SELECTED)

    assert first is not None
    assert [read.rows for read in first.reads] == [3]
    assert _in_parts(first) == {}
    assert large_trickle.verify_stream_table("t").ok


def test_executors_take_over_where_the_planner_expected_little(large_trickle: Trickle) -> None:
    """Its statistics were gathered before the rows came."""
    _change(
        large_trickle,
        "ALTER TABLE orders SET (autovacuum_enabled = off);"
        "INSERT INTO orders SELECT i, 1 + i % 1000, 1, NULL"
        "  FROM generate_series(100000001, 100005000) AS i",
    )
    first = large_trickle.create_stream_table("t", _SELECTED)

    assert first is not None
    assert _in_parts(first) == {"public.orders full": 5_003}
    assert large_trickle.verify_stream_table("t").ok


def test_what_an_earlier_stage_found_is_shared_when_it_is_large(large_trickle: Trickle) -> None:
    large_trickle.create_stream_table("t", _NESTED, refresh_mode="DIFFERENTIAL")
    _change(large_trickle, "UPDATE orders SET amount = amount * 2")

    report = large_trickle.refresh_stream_table("t")

    shared = {name: rows for name, rows in _in_parts(report).items() if name.endswith("stage")}
    assert shared, report.reads
    assert min(shared.values()) >= 1000
    assert large_trickle.verify_stream_table("t").ok


def test_very_many_keys_bound_no_read_but_few_do(large_trickle: Trickle) -> None:
    large_trickle.create_stream_table("t", _JOIN, refresh_mode="DIFFERENTIAL")

    _change(large_trickle, "UPDATE orders SET amount = amount + 1")
    many = large_trickle.refresh_stream_table("t")
    _change(large_trickle, "UPDATE orders SET amount = amount + 1 WHERE id = 7")
    few = large_trickle.refresh_stream_table("t")

    [read] = [one for one in many.reads if one.source == "public.customers"]
    assert (read.kind, read.bounded_by.split(",")[0]) == ("full", "nothing: very many keys")
    [read] = [one for one in few.reads if one.source == "public.customers"]
    assert (read.kind, read.rows) == ("keyed", 1)
    assert large_trickle.verify_stream_table("t").ok


@pytest.fixture
def from_log(large_trickle: Trickle, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trickle]:
    """Read the log after the snapshot only; take the slot away with the test that made it."""
    monkeypatch.setattr("pgtrickle.service.capturing.mode._FAR_BEHIND_BYTES", 2**40)
    yield large_trickle
    for stream_table in large_trickle.list_stream_tables():
        large_trickle.drop_stream_table(str(stream_table.name))
    assert large_trickle.capture.slot_health() is None


@pytest.mark.parametrize("query", [_JOIN, _NESTED])
def test_executors_read_a_large_window_that_came_from_the_log(
    from_log: Trickle, query: str
) -> None:
    from_log.create_stream_table("t", query, refresh_mode="DIFFERENTIAL", cdc_mode="wal")
    _change(from_log, _CHANGE)

    report = from_log.refresh_stream_table("t")

    assert report.action.value == "DIFFERENTIAL"
    assert _in_parts(report)["public.orders changes"] > 10_000
    assert from_log.verify_stream_table("t").ok
    assert from_log.capture.slot_health() is not None
    assert _leftovers(from_log) == []


@pytest.mark.parametrize("most", [10, 200_000])
def test_keys_of_a_large_window_that_came_from_the_log_bound_a_read(
    from_log: Trickle, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr("pgtrickle.service.refreshing.inputs.change_window.MAX_KEYS", most)
    from_log.create_stream_table("t", _JOIN, refresh_mode="DIFFERENTIAL", cdc_mode="wal")

    _change(from_log, "UPDATE customers SET region = 'moved' WHERE id % 5 = 0")
    report = from_log.refresh_stream_table("t")

    assert _in_parts(report)["public.customers changes"] == 360
    [orders] = [one for one in report.reads if one.source == "public.orders"]
    assert (orders.kind, orders.rows) == ("keyed", 12 * 180)
    assert from_log.verify_stream_table("t").ok
    assert _leftovers(from_log) == []


def test_progress_is_told_to_a_listener_and_in_the_database(large_trickle: Trickle) -> None:
    heard: list[Progress] = []
    seen: list[tuple[int, int]] = []

    def listen(progress: Progress) -> None:
        heard.append(progress)
        with psycopg.connect(large_trickle.dsn) as connection:
            seen.extend(
                connection.execute(
                    "SELECT p.rows_read, p.rows_staged FROM pgtrickle.pgt_refresh_progress AS p"
                    " JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id) WHERE s.pgt_name = 't'"
                ).fetchall()
            )

    large_trickle.on_progress(listen)
    large_trickle.create_stream_table("t", _JOIN)

    assert {one.stream_table for one in heard} == {"public.t"}
    assert max(one.rows_read for one in heard) > 0
    assert [one.seconds for one in heard] == sorted(one.seconds for one in heard)
    assert (heard[-1].rows_read, heard[-1].rows_staged) in seen
    with psycopg.connect(large_trickle.dsn) as connection:
        left = connection.execute("SELECT count(*) FROM pgtrickle.pgt_refresh_progress").fetchone()
    assert left == (0,)
