"""How durable change buffers are, and what a crash of the server leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import SettingError
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"
PERSISTENCE = (
    "SELECT DISTINCT relpersistence::text FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = 'pgtrickle_changes'::regnamespace"
)


@pytest.fixture
def open_lab(duckdb_engine: DuckDbEngine) -> Iterator[Callable[..., Lab]]:
    """Connect to a server of the test's own, again after each crash."""
    opened: list[Lab] = []

    def connect(dsn: str, durability: str = "logged") -> Lab:
        settings = load_settings(change_buffer_durability=durability)
        trickle = pgtrickle.connect(
            dsn, engine=Borrowed(duckdb_engine), settings=settings, init=True
        )
        opened.append(Lab(trickle, psycopg.connect(dsn, autocommit=True)))
        if len(opened) > 1:
            opened[-1].queries = opened[-2].queries
        return opened[-1]

    yield connect
    for lab in opened:
        lab.trickle.close()
        lab.connection.close()


def test_unlogged_buffer_that_a_crash_emptied_leads_to_reinitialize(
    own_server: OwnServer, open_lab: Callable[..., Lab]
):
    lab = open_lab(own_server.dsn, "unlogged")
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.create("copy", "SELECT id, k FROM t")
    assert lab.rows(PERSISTENCE) == [("u",)]
    lab.window("INSERT INTO t VALUES (3, 3)")
    lab.run("INSERT INTO t VALUES (4, 4)", "CHECKPOINT")
    own_server.crash()
    own_server.start()

    lab = open_lab(own_server.dsn)
    assert lab.value("SELECT count(*) FROM t") == 4
    alerts = [one.alert for one in lab.trickle.capture.check_cdc_health()]
    assert alerts == ["emptied_by_crash", "gap"]
    tables = lab.trickle.list_stream_tables()
    assert lab.trickle.daemon.find_idle(tables) == frozenset()
    report = lab.refresh("counts", "REINITIALIZE")
    assert report.reason == "changes of public.t are missing: a crash emptied its buffer"
    lab.run("INSERT INTO t VALUES (5, 5)")
    lab.refresh("counts")
    lab.refresh("copy", "REINITIALIZE")
    lab.window(action="NO_DATA")
    lab.window("INSERT INTO t VALUES (6, 6)")
    assert [one.alert for one in lab.trickle.capture.check_cdc_health()] == [None]


@pytest.mark.parametrize("durability", ["logged", "sync"])
def test_logged_buffer_survives_a_crash(
    own_server: OwnServer, open_lab: Callable[..., Lab], durability: str
):
    lab = open_lab(own_server.dsn, durability)
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.run("INSERT INTO t VALUES (4, 4)")
    own_server.crash()
    own_server.start()

    open_lab(own_server.dsn).refresh("counts")


def test_unlogged_buffer_survives_an_orderly_restart(
    own_server: OwnServer, open_lab: Callable[..., Lab]
):
    lab = open_lab(own_server.dsn, "unlogged")
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.run("INSERT INTO t VALUES (4, 4)")
    own_server.stop("fast")
    own_server.start()

    open_lab(own_server.dsn).refresh("counts")


def test_durability_changes_while_changes_wait(lab: Lab):
    lab.run(*T)
    lab.create("counts", COUNTS)
    for durability, found in (("unlogged", "u"), ("sync", "p"), ("unlogged", "u"), ("logged", "p")):
        lab.run("INSERT INTO t SELECT max(id) + 1, 7 FROM t")
        assert lab.trickle.capture.set_buffer_durability(durability) == ["public.t"]
        assert lab.rows(PERSISTENCE) == [(found,)]
        lab.window("INSERT INTO t SELECT max(id) + 1, 8 FROM t")
    assert lab.value("SELECT count(*) FROM pgtrickle.pgt_unlogged_buffers") == 0


def test_sync_makes_every_captured_writer_wait_for_the_disk(lab: Lab):
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.trickle.capture.set_buffer_durability("sync")

    with psycopg.connect(lab.trickle.dsn) as writer:
        writer.execute("SET synchronous_commit = off")
        writer.commit()
        writer.execute("INSERT INTO t VALUES (3, 3)")
        during = writer.execute("SHOW synchronous_commit").fetchall()
        writer.commit()
        after = writer.execute("SHOW synchronous_commit").fetchall()

    assert (during, after) == ([("on",)], [("off",)])
    lab.refresh("counts")
    lab.trickle.capture.set_buffer_durability("logged")
    with psycopg.connect(lab.trickle.dsn) as writer:
        writer.execute("SET synchronous_commit = off")
        writer.execute("INSERT INTO t VALUES (4, 4)")
        assert writer.execute("SHOW synchronous_commit").fetchall() == [("off",)]
    lab.refresh("counts")


def test_unknown_durability_is_refused(lab: Lab):
    with pytest.raises(SettingError, match="eternal") as caught:
        lab.trickle.capture.set_buffer_durability("eternal")
    assert "unlogged" in caught.value.hint
    with pytest.raises(SettingError):
        load_settings(change_buffer_durability="eternal")
