"""Everything that PostgreSQL has is shadowed on the owner's path, and nothing of it is called."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from pgtrickle.errors import UndefinedObjectError
from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.spark.executors.connection_file import connection_file
from pgtrickle.spark.executors.part_report import connected
from pgtrickle.transit.arrow_reader import stream
from tests.labs.circles import EDGES, FEW, check, close, with_settings
from tests.labs.lab import Lab
from tests.security.bench import Bench
from tests.security.shadows import count_calls, set_traps
from tests.service.requests.test_access import _serving as serving


@pytest.fixture
def bench(empty_bench: Bench) -> Bench:
    """Let the test say who makes the catalog, and what is there before."""
    return empty_bench


def test_traps_are_sprung_by_whoever_steps_on_them(bench: Bench):
    set_traps(bench)
    calls = (
        "SELECT 1 FROM generate_series(1, 2::int8)",
        "SELECT version()",
        "SELECT 1 + 1",
        "SELECT typname FROM pg_type",
        "SELECT 'a'::text",
    )

    for number, call in enumerate(calls, 1):
        with pytest.raises(psycopg.Error):
            bench.value("owner", call)
        assert count_calls(bench) == number


CLEAN = "pg_catalog, shop"  # on which the owner's own queries are written
SOURCES = (
    "CREATE TABLE shop.customers (id int PRIMARY KEY, name text, born date, seen timestamptz)",
    "INSERT INTO shop.customers VALUES (1, 'ann', '1990-01-01', '2026-01-01 12:00Z'),"
    " (2, 'bob', NULL, NULL), (3, 'cid', '2001-05-05', '2026-02-02 12:00Z')",
    "CREATE TABLE shop.items"
    " (customer int, note varchar(20), price numeric, parts int[], doc jsonb)",
    "INSERT INTO shop.items VALUES (1, 'a', 1.50, '{1,2}', '{\"a\": 1}'),"
    " (1, 'a', 1.50, '{1,2}', '{\"a\": 1}'), (2, 'b', 2, NULL, NULL), (9, 'c', 3.25, '{3}', '[1]')",
    "CREATE VIEW shop.priced AS SELECT customer, price * 2 AS double FROM items WHERE price > 1",
)
QUERIES = {
    "shop.joined": "SELECT c.id, c.name, i.note, i.price, i.doc FROM customers AS c"
    " JOIN items AS i ON i.customer = c.id WHERE c.name <> 'zed'",
    "shop.outer_joined": "SELECT c.id, c.seen, i.note FROM customers AS c"
    " FULL JOIN items AS i ON i.customer = c.id",
    "shop.grouped": "SELECT c.name, count(*) AS n, sum(i.price) AS total, avg(i.price) AS mean,"
    " min(i.note) AS first, count(DISTINCT i.price) AS prices, string_agg(i.note, ',' ORDER BY"
    " i.note) AS notes FROM customers AS c JOIN items AS i ON i.customer = c.id GROUP BY c.name"
    " HAVING count(*) > 0",
    "shop.ranked": "SELECT customer, price, row_number() OVER (PARTITION BY customer"
    " ORDER BY price, note) AS place FROM items",
    "shop.top": "SELECT id, name FROM customers ORDER BY id DESC LIMIT 2",
    "shop.known": "SELECT id FROM customers AS c WHERE EXISTS (SELECT FROM items AS i WHERE"
    " i.customer = c.id) UNION SELECT customer FROM items",
    "shop.viewed": "SELECT customer, max(double) AS most FROM priced GROUP BY customer",
    "shop.regions": "SELECT region, sum(amount) AS total FROM orders GROUP BY region",
    "shop.whole": "SELECT max(total) AS most, min(total) AS least FROM regions",
    "shop.meeting": "SELECT r.region, r.total, w.most FROM regions AS r CROSS JOIN whole AS w",
}
CHANGES = (
    "INSERT INTO shop.customers VALUES (4, 'dot', '1970-07-07', '2026-03-03 12:00Z')",
    "INSERT INTO shop.items VALUES (4, 'd', 7, '{7}', NULL), (4, 'd', 7, '{7}', NULL)",
    "UPDATE shop.items SET price = price + 1 WHERE customer = 1",
    "DELETE FROM shop.items WHERE customer = 2",
    "UPDATE shop.orders SET amount = amount * 2 WHERE id = 1",
    "DELETE FROM shop.customers WHERE id = 3",
)


@contextmanager
def trapped(bench: Bench) -> Iterator[Lab]:
    """Yield a laboratory under the hostile path, whose owner has written his queries on his own."""
    bench.run("owner", f"SET search_path = {CLEAN}", *SOURCES)
    set_traps(bench)
    with bench.lab() as lab:
        lab.run(f"SET search_path = {CLEAN}")
        lab.trickle._runtime.search_path, lab.trickle._schema = CLEAN, "shop"
        yield lab
    assert count_calls(bench) == 0


def test_differential_refreshes_call_nothing_of_the_path(bench: Bench):
    with trapped(bench) as lab:
        for name, query in QUERIES.items():
            lab.create(name, query)

        lab.window(*CHANGES)
        lab.refresh("shop.joined", "NO_DATA")

        for name in QUERIES:
            assert lab.trickle.explain_stream_table(name)
        lab.trickle.daemon.find_idle(lab.trickle.list_stream_tables())
        lab.trickle.daemon.refresh_unit(["shop.regions", "shop.whole", "shop.meeting"])
        lab.trickle.repair_stream_table("shop.joined")
        lab.refresh("shop.joined", "REINITIALIZE")
        lab.trickle.capture.check_cdc_health()
        lab.trickle.capture.pause_cdc()
        lab.trickle.capture.resume_cdc()
        lab.trickle.capture.rebuild_cdc_triggers()
        lab.trickle.doctor()
        lab.trickle.refresh_history()
        lab.trickle.daemon.prune_history()
        lab.trickle.drop_stream_table("shop.regions", cascade=True)


def test_full_refreshes_call_nothing_of_the_path(bench: Bench):
    with trapped(bench) as lab:
        for name, query in QUERIES.items():
            lab.create(name, query, "FULL")
        timely = "SELECT count(*) AS n FROM customers HAVING max(seen) < now()"
        lab.create("shop.timely", timely, "AUTO")

        lab.window(*CHANGES, action="FULL")

        lab.trickle.refresh_stream_table("shop.joined", full=True)


def test_another_query_calls_nothing_of_the_path(bench: Bench):
    with trapped(bench) as lab:
        name = "shop.joined"
        lab.create(name, QUERIES[name])
        query = "SELECT c.id, c.born FROM customers AS c WHERE c.id > 0"

        lab.trickle.alter_stream_table(name, query=query)

        lab.queries[name] = query
        lab.window("INSERT INTO shop.customers VALUES (7, 'eve', NULL, NULL)")


def test_requests_call_nothing_of_the_path(bench: Bench):
    with trapped(bench) as lab, serving(lab.trickle):
        query = QUERIES["shop.grouped"].replace("'", "''")
        lab.run(
            f"CALL pgtrickle.create_stream_table('shop.grouped', '{query}')",
            *CHANGES,
            "CALL pgtrickle.refresh_stream_table('shop.grouped')",
            "CALL pgtrickle.alter_stream_table('shop.grouped', schedule => '5m')",
            "CALL pgtrickle.drop_stream_table('shop.grouped')",
        )


def test_daemon_calls_nothing_of_the_path(bench: Bench):
    with trapped(bench) as lab:
        lab.create("shop.joined", QUERIES["shop.joined"])
        lab.run(*CHANGES)
        with (
            lab.trickle.daemon.listening_for_changes() as bell,
            lab.trickle.daemon.standing_for_leader(),
            lab.trickle.daemon.pruning_history(),
        ):
            lab.trickle.daemon.tend_capture()
            lab.trickle.daemon.tend_lake()
            bell.watch([lab.trickle.get_stream_table("shop.joined").id])
            time.sleep(0.5)
            lab.trickle.daemon.figure_reader().read()


def test_circles_call_nothing_of_the_path(bench: Bench):
    with trapped(bench) as lab:
        lab.run("SET search_path = shop", EDGES, FEW, f"SET search_path = {CLEAN}")
        close(lab, 2)

        lab.run("INSERT INTO edge VALUES (7, 8), (8, 5)")
        lab.trickle.refresh_stream_table("walk_0")

        check(lab, 2)
        assert lab.trickle.verify_stream_table("walk_0").ok


def test_copies_in_the_lake_call_nothing_of_the_path(bench: Bench, tmp_path: Path):
    with trapped(bench) as lab, with_settings(lab, ducklake_catalog_schema="lake"):
        with lab.trickle._runtime.connection() as connection:
            create_catalog(connection, "lake", str(tmp_path))
        for name in ("shop.joined", "shop.grouped"):
            lab.trickle.create_stream_table(name, QUERIES[name], sink="ducklake")
            lab.queries[name] = QUERIES[name]

        lab.window(*CHANGES)

        delivered = {one.status.value for one in lab.trickle.lake.ducklake_sink_status()}
        assert delivered == {"DELIVERED"}
        lab.trickle.lake.attach_ducklake_table("shop.landed", "main.joined")
        lab.trickle.lake.maintain_lake(timedelta(0))


def test_executors_call_nothing_of_the_path(bench: Bench):
    with trapped(bench):
        reader = bench.open("owner", autocommit=False)
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        [(snapshot,)] = reader.execute("SELECT pg_catalog.pg_export_snapshot()").fetchall()

        batches = list(
            stream(bench.dsn_of("owner"), snapshot, "SELECT id + 1::int8 AS n FROM shop.customers")
        )

        assert sum(batch.num_rows for batch in batches) == 3
        with (
            connection_file(bench.dsn_of("owner")) as file,
            connected(str(file), doing="count") as connection,
        ):
            assert connection.execute("SELECT count(*) + 1::int8 FROM shop.items").fetchone()


RATE = (
    "CREATE TABLE shop.rates (region text, rate numeric)",
    "INSERT INTO shop.rates VALUES ('north', 2)",
    "CREATE FUNCTION shop.rate(wanted text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS"
    " 'BEGIN RETURN (SELECT rate FROM rates WHERE region = wanted); END'",
)
RATED = "SELECT id, shop.rate(region) AS rate FROM shop.orders"


@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "FULL"])
def test_function_is_called_under_our_path_unless_it_has_its_own(bench: Bench, mode: str):
    bench.run("owner", *RATE)
    bench.run("admin", "ALTER ROLE {owner} IN DATABASE {database} SET search_path = shop")
    with bench.lab() as lab:
        with pytest.raises(UndefinedObjectError) as raised:
            lab.create("rated", RATED, mode)
        assert "SET search_path" in raised.value.hint

        bench.run("owner", "ALTER FUNCTION shop.rate(text) SET search_path = shop, pg_temp")

        lab.create("rated", RATED, mode)
        lab.window("INSERT INTO shop.orders VALUES (9, 'north', 1)", action=mode)


def test_names_of_the_user_are_looked_for_on_his_path(bench: Bench):
    bench.run("admin", "ALTER ROLE {owner} IN DATABASE {database} SET search_path = shop")

    with bench.lab() as lab:
        lab.create("revenue", "SELECT region, sum(amount) AS total FROM orders GROUP BY region")
        assert lab.trickle.get_stream_table("shop.revenue").name.schema == "shop"
        assert lab.trickle.validate_query("SELECT count(*) AS n FROM orders").usable
        lab.trickle.alter_stream_table("revenue", query="SELECT region FROM orders")
