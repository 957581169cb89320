"""Channels are told of every refresh that changed something, once, with every row counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pgtrickle.catalog.scheduling.subscriptions import tell_pending
from tests.fixtures.daemons import await_
from tests.labs.hearing import heard
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")


@pytest.fixture
def listener(lab: Lab) -> Iterator[psycopg.Connection]:
    with psycopg.connect(lab.trickle.dsn, autocommit=True) as connection:
        connection.execute("LISTEN news")
        yield connection


@pytest.fixture
def copy(lab: Lab) -> Iterator[Lab]:
    """Subscribe to a stream table whose notices wait for an hour after the first."""
    lab.run(*T)
    lab.create("copy", "SELECT id, k FROM t")
    lab.run("SELECT pgtrickle.subscribe('copy', 'news')")
    runtime = lab.trickle._runtime
    before = runtime.settings
    runtime.settings = replace(before, notify_coalesce_ms=3_600_000)
    yield lab
    runtime.settings = before


def news(lab: Lab, listener: psycopg.Connection) -> list[dict[str, Any]]:
    return [json.loads(one) for one in heard(lab, listener, "news")]


def test_refresh_is_told_with_its_counts(copy: Lab, listener: psycopg.Connection):
    copy.run("UPDATE t SET k = 2", "INSERT INTO t VALUES (3, 3)")
    report = copy.refresh("copy")

    assert news(copy, listener) == [
        {
            "name": "public.copy",
            "refresh_id": report.refresh_id,
            "inserted_count": 3,
            "deleted_count": 2,
        }
    ]


def test_refresh_without_changes_is_not_told(copy: Lab, listener: psycopg.Connection):
    copy.trickle.refresh_stream_table("copy")
    copy.run("INSERT INTO t VALUES (3, 3)", "DELETE FROM t WHERE id = 3")
    copy.trickle.refresh_stream_table("copy")

    assert news(copy, listener) == []


def test_notices_that_follow_soon_become_one_and_no_count_is_lost(
    copy: Lab, listener: psycopg.Connection
):
    ids = []
    for number in range(3, 8):
        copy.run(f"INSERT INTO t VALUES ({number}, 1)")
        ids.append(copy.refresh("copy").refresh_id)
    first = news(copy, listener)
    with copy.trickle._runtime.connection() as connection:
        held_back = tell_pending(connection, 3_600_000)
        told = tell_pending(connection, 0)

    assert [one["inserted_count"] for one in first] == [1]
    assert (held_back, told) == ([], ["news"])
    assert [(one["refresh_id"], one["inserted_count"]) for one in news(copy, listener)] == [
        (ids[-1], 4)
    ]


def test_pending_counts_go_with_the_next_refresh_that_is_told(
    copy: Lab, listener: psycopg.Connection
):
    copy.window("INSERT INTO t VALUES (3, 3)")
    copy.window("INSERT INTO t VALUES (4, 4)")
    runtime = copy.trickle._runtime
    runtime.settings = replace(runtime.settings, notify_coalesce_ms=0)
    copy.window("DELETE FROM t WHERE id = 1")

    assert [(one["inserted_count"], one["deleted_count"]) for one in news(copy, listener)] == [
        (1, 0),
        (1, 1),
    ]


def test_notice_belongs_to_the_transaction_of_the_refresh(copy: Lab, listener: psycopg.Connection):
    copy.run("INSERT INTO t VALUES (3, 3)")
    copy.before_next_stage(
        lambda: copy.run("UPDATE pgtrickle.pgt_leases SET token = -token, owner = 'rival'")
    )

    with pytest.raises(Exception, match="lease"):
        copy.trickle.refresh_stream_table("copy")

    assert news(copy, listener) == []
    assert copy.value("SELECT pending_inserted FROM pgtrickle.pgt_subscriptions") == 0


def test_the_server_tells_what_was_held_back(served: Lab, listener: psycopg.Connection):
    served.run(*T)
    served.create("copy", "SELECT id, k FROM t")
    served.run("SELECT pgtrickle.subscribe('copy', 'news')")
    for number in range(3, 6):
        served.window(f"INSERT INTO t VALUES ({number}, 1)")

    told: list[int] = []

    def all_told() -> bool:
        told.extend(one["inserted_count"] for one in news(served, listener))
        return sum(told) >= 3

    await_(all_told)
    assert sum(told) == 3


def test_subscribing_twice_and_unsubscribing(copy: Lab, listener: psycopg.Connection):
    copy.run("SELECT pgtrickle.subscribe('public.copy', 'news')")
    listed = copy.rows("SELECT stream_table, channel FROM pgtrickle.list_subscriptions()")

    gone = copy.value("SELECT pgtrickle.unsubscribe('copy', 'news')")
    again = copy.value("SELECT pgtrickle.unsubscribe('copy', 'news')")
    copy.window("INSERT INTO t VALUES (3, 3)")

    assert listed == [("public.copy", "news")]
    assert (gone, again) == (True, False)
    assert news(copy, listener) == []


def test_subscriptions_go_with_the_stream_table(copy: Lab):
    copy.trickle.drop_stream_table("copy")

    assert copy.rows("SELECT * FROM pgtrickle.pgt_subscriptions") == []


@pytest.mark.parametrize("channel", ["", "x" * 64, "pg_trickle_alert"])
def test_channels_that_cannot_be(copy: Lab, channel: str):
    with pytest.raises(psycopg.Error) as caught:
        copy.run(f"SELECT pgtrickle.subscribe('copy', '{channel}')")

    assert caught.value.sqlstate == "ST605"


def test_channel_and_name_may_be_hostile(copy: Lab):
    hostile = """a'b"c; DROP TABLE t; --"""
    copy.connection.execute("SELECT pgtrickle.subscribe('copy', %s)", [hostile])
    copy.window("INSERT INTO t VALUES (3, 3)")

    assert (hostile,) in copy.rows("SELECT channel FROM pgtrickle.list_subscriptions()")
