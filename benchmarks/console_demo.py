"""Thirty stream tables to look at with both consoles: late, failing, held ones, diamonds, a lake.

    python -m benchmarks.console_demo [--seconds N] [--orders N] [--port N]

It starts a server of its own, loads the shop of the demo, makes the stream tables, and then runs a
daemon and a writer.  It serves the page and prints its address, and the connection string for
``pgtrickle top``, until Ctrl-C or for some seconds.  PostgreSQL computes the refreshes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from socket import create_server

import psycopg

import pgtrickle
from benchmarks.say import say
from pgtrickle.console.watching import Watch
from pgtrickle.console.web.guard import new_token
from pgtrickle.console.web.serving import address, make_guard, make_server
from pgtrickle.daemon import LogWatcher
from pgtrickle.demo.generator import Generator
from pgtrickle.demo.shop import REGIONS, REVENUE_BY_REGION, load_shop
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

_SCHEMA = "lake"
# Not IMMUTABLE in truth: what it refuses depends on a setting of the database.
_FRAGILE = """
    CREATE FUNCTION fragile(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF current_setting('shop.breaks', true) = 'on' THEN
            RAISE EXCEPTION 'the price list is being rewritten';
        END IF;
        RETURN n;
    END $$
"""
LATE, FAILING, HELD, GATED = "late_orders", "fragile_orders", "held_orders", "seasons_seen"


def definitions() -> Iterator[tuple[str, str, str]]:
    """Yield the name, the query and the schedule of each stream table."""
    yield REVENUE_BY_REGION.name, REVENUE_BY_REGION.query, "2s"
    yield "orders_by_product", "SELECT product_id, count(*) AS n FROM orders GROUP BY 1", "2s"
    yield "orders_by_customer", "SELECT customer_id, count(*) AS n FROM orders GROUP BY 1", "3s"
    yield "busy_products", "SELECT product_id, n FROM orders_by_product WHERE n > 8", "3s"
    yield "busy_customers", "SELECT customer_id, n FROM orders_by_customer WHERE n > 3", "3s"
    yield "cancelled", "SELECT id, customer_id FROM orders WHERE status = 'cancelled'", "5s"
    # A diamond: two ways from the orders, which are refreshed together.
    yield (
        "best_of_both",
        """
        SELECT c.customer_id, p.product_id
          FROM busy_customers AS c
          JOIN orders AS o ON o.customer_id = c.customer_id
          JOIN busy_products AS p ON p.product_id = o.product_id
        """,
        "5s",
    )
    yield "dear_products", "SELECT id, name, price FROM products WHERE price > 90", "10s"
    yield "cheap_products", "SELECT id, name, price FROM products WHERE price < 5", "10s"
    yield (
        "recent_orders",
        "SELECT id, product_id FROM orders WHERE ordered_at > now() - interval '30 s'",
        "2s",
    )
    for region in REGIONS:
        where = f"SELECT id, name FROM customers WHERE region = '{region}'"
        yield f"customers_{region}", where, "20s"
        joined = (
            f"SELECT o.product_id, sum(o.quantity) AS quantity FROM orders AS o"
            f" JOIN customers_{region} AS c ON c.id = o.customer_id GROUP BY o.product_id"
        )
        yield f"sold_{region}", joined, "5s"
    yield LATE, "SELECT id, quantity FROM orders WHERE quantity > 19", "1h"
    yield FAILING, "SELECT id, fragile(product_id) AS product FROM orders WHERE id % 50 = 0", "2s"
    yield HELD, "SELECT id, status FROM orders WHERE quantity = 1", "5s"
    yield GATED, "SELECT season, count(*) AS n FROM seasons GROUP BY season", "5s"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, help="end after so many; default: at Ctrl-C")
    parser.add_argument("--orders", type=int, default=20_000)
    parser.add_argument("--port", type=int, default=8642)
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "home") as server:
            settings = Settings(dsn=server.dsn, engine=POSTGRES, ducklake_catalog_schema=_SCHEMA)
            with pgtrickle.connect(settings=settings, init=True) as trickle:
                _open(trickle, Path(directory) / "lake", given.orders)
                _show(trickle, given)
    return 0


def _open(trickle: pgtrickle.Trickle, lake: Path, orders: int) -> None:
    say(f"loading {orders:,} orders")
    with psycopg.connect(trickle.dsn, autocommit=True) as connection:
        load_shop(connection, orders=orders)
        connection.execute(_FRAGILE)
        connection.execute("CREATE TABLE seasons (id int PRIMARY KEY, season text)")
        connection.execute("INSERT INTO seasons VALUES (1, 'spring'), (2, 'autumn')")
        for name, query, schedule in definitions():
            say(f"creating {name}")
            sink = {"sink": "ducklake", "ducklake_sink_path": str(lake)}
            more = sink if name == REVENUE_BY_REGION.name else {}
            trickle.create_stream_table(name, query, schedule=schedule, **more)  # type: ignore[arg-type]
        trickle.scheduler.pause_scheduler(HELD)
        trickle.scheduler.gate_source("seasons")
        trickle.scheduler.set_stream_table_sla("busy_products", "20s")
        trickle.scheduler.set_stream_table_sla(LATE, "5s")
        trickle.alter_stream_table(LATE, schedule="1h")  # which cannot keep it
        trickle.snapshots.snapshot_stream_table(REVENUE_BY_REGION.name, "revenue_at_the_start")
        connection.execute("ALTER DATABASE postgres SET shop.breaks = 'on'")


def _show(trickle: pgtrickle.Trickle, given: argparse.Namespace) -> None:
    stop = threading.Event()
    settings = Settings(dsn=trickle.dsn, engine=POSTGRES, ducklake_catalog_schema=_SCHEMA)
    generator = Generator(trickle.dsn, 1, given.orders)
    watch = Watch(trickle)
    token = new_token()
    listener = create_server(("127.0.0.1", given.port))
    page = make_server(trickle, watch, make_guard(token, (), read_only=False), 1.0)
    # Sessions that begin from now on meet the failing function.
    with pgtrickle.connect(settings=settings) as worker:
        daemon = threading.Thread(target=worker.run, args=[stop], kwargs={"watcher": LogWatcher()})
        generator.start()
        daemon.start()
        watch.listen()
        print(f"\nthe page:     {address(listener, token)}")
        print(f"the terminal: pgtrickle top --dsn '{trickle.dsn}'\n", flush=True)
        if given.seconds is not None:
            threading.Timer(given.seconds, lambda: setattr(page, "should_exit", True)).start()
        try:
            page.run(sockets=[listener])
        finally:
            _close(trickle, stop)
            generator.stop()
            daemon.join()
            watch.close()


def _close(trickle: pgtrickle.Trickle, stop: threading.Event) -> None:
    stop.set()
    picture = trickle.insight.picture()
    tables = picture.tables or ()
    say(
        f"{len(tables)} stream tables: {sum(one.late for one in tables)} late,"
        f" {sum(one.failing for one in tables)} failing, {len(picture.holds or ())} held,"
        f" {len(picture.sinks or ())} in the lake"
    )


if __name__ == "__main__":
    sys.exit(main())
