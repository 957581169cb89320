"""The demo from beginning to end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console

from pgtrickle.client.trickle import Trickle
from pgtrickle.demo.generator import Generator
from pgtrickle.demo.live import Display
from pgtrickle.demo.shop import DEFINITIONS, load_shop
from pgtrickle.demo.summary import Summary
from pgtrickle.embedded.server import start_embedded
from pgtrickle.scheduler.loop import Loop

_DATABASE_PREFIX = "pgtrickle_demo_"


def run_demo(
    connect: Callable[..., AbstractContextManager[Trickle]],
    *,
    seconds: float,
    orders: int,
    seed: int,
    console: Console,
) -> Summary:
    """Run the shop and its stream tables on an embedded server of their own."""
    summary = Summary()
    display = Display(console, summary)
    display.step("starting PostgreSQL")
    home = Path(os.environ.get("PGTRICKLE_HOME") or ".pgtrickle") / "demo"
    with start_embedded(home) as server, _fresh_database(server.dsn) as dsn:
        display.step(f"loading {orders:,} orders")
        with psycopg.connect(dsn, autocommit=True) as connection:
            load_shop(connection, orders=orders)
        with connect(dsn, init=True) as trickle:
            _create(trickle, display)
            _do_business(trickle, display, summary, seconds=seconds, orders=orders, seed=seed)
            _verify(trickle, display, summary)
            display.step("stopping")
    summary.seconds = display.elapsed
    display.finish()
    return summary


def _create(trickle: Trickle, display: Display) -> None:
    display.step("starting Spark, which takes some seconds")
    for definition in DEFINITIONS:
        display.step(f"creating {definition.name}: {definition.kind}")
        report = trickle.create_stream_table(definition.name, definition.query, schedule="1s")
        if report is not None:
            display.refreshed(report)


def _do_business(
    trickle: Trickle, display: Display, summary: Summary, *, seconds: float, orders: int, seed: int
) -> None:
    display.step(f"changing orders, products and customers for {seconds:.0f} seconds")
    generator = Generator(trickle.dsn, seed, orders, summary.changes)
    closing_time = threading.Event()
    timer = threading.Timer(seconds, closing_time.set)
    timer.daemon = True
    generator.start()
    timer.start()
    try:
        with display.live():
            Loop(trickle.daemon, display).run(closing_time)
    finally:
        timer.cancel()
        generator.stop()


def _verify(trickle: Trickle, display: Display, summary: Summary) -> None:
    display.step("the shop is closed: refreshing what is left")
    for definition in DEFINITIONS:
        display.refreshed(trickle.refresh_stream_table(definition.name))
    for definition in DEFINITIONS:
        display.step(f"verifying {definition.name} against PostgreSQL's own answer")
        report = trickle.verify_stream_table(definition.name)
        summary.of(report.stream_table).verified = report


@contextmanager
def _fresh_database(server_dsn: str) -> Iterator[str]:
    """Make a database for this run, and remove what runs that were killed left behind."""
    name = f"{_DATABASE_PREFIX}{os.getpid()}"
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        for (stale,) in connection.execute(
            "SELECT datname FROM pg_catalog.pg_database AS d"
            " WHERE pg_catalog.starts_with(datname, %s)"
            "   AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity AS a"
            "                    WHERE a.datid = d.oid)",
            [_DATABASE_PREFIX],
        ).fetchall():
            connection.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(stale)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield make_conninfo(server_dsn, dbname=name)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )
