"""A demo from beginning to end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from rich.console import Console

from pgtrickle.client.trickle import Trickle
from pgtrickle.demo.board import Board
from pgtrickle.demo.live import Display
from pgtrickle.demo.page import page_of
from pgtrickle.demo.show import Show
from pgtrickle.demo.summary import Summary
from pgtrickle.embedded.server import start_embedded
from pgtrickle.scheduler.loop import Loop
from pgtrickle.settings import POSTGRES

_DATABASE_PREFIX = "pgtrickle_demo_"
SHOWS = {
    "shop": "business:Shop",
    "leaderboard": "leaderboard:Leaderboard",
    "auction": "auction:Auction",
    "loop": "lake_loop:LakeLoop",
    "snapshot": "snapshot:Accident",
}


def run_demo(
    connect: Callable[..., AbstractContextManager[Trickle]],
    name: str = "shop",
    *,
    seconds: float | None,
    size: int | None,
    seed: int,
    console: Console,
) -> Summary:
    """Run a demo and its stream tables on an embedded server of their own."""
    show = _find(name)
    size = size or show.size
    summary = Summary()
    display = Display(console, summary)
    display.step("starting PostgreSQL")
    home = Path(os.environ.get("PGTRICKLE_HOME") or ".pgtrickle") / "demo"
    with start_embedded(home) as server, _fresh_database(server.dsn) as dsn, show.open(home):
        display.step(f"loading {size:,} {show.rows}")
        with psycopg.connect(dsn, autocommit=True) as connection:
            show.load(connection, size)
        with connect(dsn, init=True) as trickle:
            _create(trickle, show, display)
            show.prepare(trickle, display)
            _do_business(
                trickle,
                show,
                display,
                summary,
                seconds=show.seconds if seconds is None else seconds,
                size=size,
                seed=seed,
            )
            _verify(trickle, show, display, summary)
            summary.shown = show.close(trickle, display)
            display.step("stopping")
    summary.seconds = display.elapsed
    display.finish()
    return summary


def _find(name: str) -> Show:
    module, kind = SHOWS[name].split(":")
    show: Show = getattr(import_module(f"pgtrickle.demo.{module}"), kind)()
    return show


def _create(trickle: Trickle, show: Show, display: Display) -> None:
    if {one.name: one.value for one in trickle.list_settings()}["engine"] != POSTGRES:
        display.step("starting Spark, which takes some seconds")
    for definition in show.definitions:
        display.step(f"creating {definition.name}: {definition.kind}")
        report = trickle.create_stream_table(
            definition.name, definition.query, schedule="1s", **definition.options
        )
        if report is not None:
            display.refreshed(report)


def _do_business(
    trickle: Trickle,
    show: Show,
    display: Display,
    summary: Summary,
    *,
    seconds: float,
    size: int,
    seed: int,
) -> None:
    display.step(f"changing {show.rows} and what belongs to them for {seconds:.0f} seconds")
    generator = show.writer(trickle.dsn, seed, size, summary.changes)
    closing_time = threading.Event()
    timer = threading.Timer(seconds, closing_time.set)
    timer.daemon = True
    with ExitStack() as stack:
        if show.board is not None:
            stack.enter_context(_shown_board(trickle.dsn, show, display))
        generator.start()
        stack.callback(generator.stop)
        timer.start()
        stack.callback(timer.cancel)
        stack.enter_context(display.live())
        Loop(trickle.daemon, display).run(closing_time)


@contextmanager
def _shown_board(dsn: str, show: Show, display: Display) -> Iterator[None]:
    title, query = show.board or ("", "")
    board = Board(dsn, title, query, display.told)
    with ExitStack() as stack:
        if show.page:
            address = stack.enter_context(page_of(board))
            display.step(f"the page: {address}" if address else "no page: it needs pgtrickle[ui]")
        display.board = board
        board.start()
        try:
            yield
        finally:
            board.stop()


def _verify(trickle: Trickle, show: Show, display: Display, summary: Summary) -> None:
    display.step("no more changes: refreshing what is left")
    for definition in show.definitions:
        display.refreshed(trickle.refresh_stream_table(definition.name))
    for one in trickle.list_stream_tables():
        display.step(f"verifying {one.name.name} against PostgreSQL's own answer")
        report = trickle.verify_stream_table(one.name.sql)
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
