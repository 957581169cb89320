"""Attacks on subscriptions and channels: who is told, who ends what, what a stranger hears."""

from __future__ import annotations

import json
import time
from typing import Any

import psycopg
import pytest

from pgtrickle.catalog.scheduling.subscriptions import tell_pending
from pgtrickle.service.scheduling.bell_listener import listening_for_changes
from tests.labs.hearing import PATIENCE
from tests.labs.lab import Lab
from tests.security.bench import Bench
from tests.security.serving import refused, stocked, until

MINE = "SELECT pgtrickle.subscribe('shop.revenue', 'mine')"


def heard(connection: psycopg.Connection[Any]) -> list[Any]:
    """Return what was told before now: notices arrive in the order of the commits."""
    connection.execute("LISTEN the_last")
    connection.execute("NOTIFY the_last")
    told: list[Any] = []
    for notice in connection.notifies(timeout=PATIENCE):
        if notice.channel == "the_last":
            return told
        told.append(json.loads(notice.payload))
    raise AssertionError(f"the last notice did not arrive after {told}")


def change(bench: Bench, lab: Lab, id_: int) -> None:
    bench.run("writer", f"INSERT INTO shop.orders VALUES ({id_}, 'west', {id_})")
    lab.trickle.refresh_stream_table("shop.revenue")


def allowed(bench: Bench, *who: str) -> None:
    for one in who:
        bench.run("owner", f"GRANT SELECT ON shop.revenue TO {bench.roles[one]}")


def test_who_may_not_read_a_stream_table_does_not_subscribe_to_it(bench: Bench):
    with stocked(bench, "attacker"):
        attacker = bench.open("attacker")
        act = "INSERT INTO pgtrickle.acts (act, stream_table, name) VALUES ('subscribe', 1, 'x')"

        assert refused(attacker, MINE) == "ST303"
        assert refused(attacker, act) == "ST303"


def test_nobody_subscribes_as_somebody_else(bench: Bench):
    with stocked(bench, "attacker"):
        attacker, owner = bench.open("attacker"), bench.roles["owner"]
        forged = f"'subscribe', 1, 'x', '{owner}'::regrole"
        act = f"INSERT INTO pgtrickle.acts (act, stream_table, name, caller) VALUES ({forged})"
        named = f"SELECT pgtrickle.subscribe('shop.revenue', 'x', '{{}}', '{owner}')"
        row = "INSERT INTO pgtrickle.pgt_subscriptions (pgt_id, channel) VALUES (1, 'x')"

        assert refused(attacker, act) == "42501"
        assert refused(attacker, named) == "42883"
        assert refused(attacker, row) == "42501"


def test_subscription_of_another_is_neither_ended_nor_seen_nor_joined(bench: Bench):
    with stocked(bench, "attacker", "writer") as lab:
        allowed(bench, "attacker", "writer")
        end = MINE.replace("subscribe(", "unsubscribe(")
        listed = "SELECT count(*) FROM pgtrickle.list_subscriptions()"
        bench.open("writer").execute(MINE.encode())

        assert bench.value("attacker", end) is False
        assert bench.value("attacker", listed) == 0
        assert refused(bench.open("attacker"), MINE) == "ST605"
        assert bench.value("owner", listed) == 1
        assert bench.value("writer", end) is True
        assert lab.value("SELECT count(*) FROM pgtrickle.pgt_subscriptions") == 0


@pytest.mark.parametrize("channel", ["pg_trickle_wake", "pg_trickle_alert", "a\nb", "\x1b[2J", ""])
def test_channels_of_ours_and_odd_ones_are_refused(bench: Bench, channel: str):
    with stocked(bench, "attacker"):
        allowed(bench, "attacker")
        attacker = bench.open("attacker")

        with pytest.raises(psycopg.Error) as caught:
            attacker.execute("SELECT pgtrickle.subscribe('shop.revenue', %s)", [channel])

        assert caught.value.sqlstate == "ST605"


def test_subscriptions_are_not_without_number(bench: Bench):
    with stocked(bench, "attacker"):
        allowed(bench, "attacker")
        many = "SELECT pgtrickle.subscribe('shop.revenue', 'c' || n) FROM generate_series(1, 21) n"

        assert refused(bench.open("attacker"), many) == "ST606"


def test_who_lost_the_right_is_told_no_more(bench: Bench):
    with stocked(bench, "attacker") as lab:
        allowed(bench, "attacker")
        attacker = bench.open("attacker")
        attacker.execute("LISTEN mine")
        attacker.execute(MINE.encode())
        change(bench, lab, 10)
        first = heard(attacker)

        bench.run("owner", f"REVOKE SELECT ON shop.revenue FROM {bench.roles['attacker']}")
        change(bench, lab, 11)
        with lab.trickle._runtime.connection() as connection:
            told = tell_pending(connection, 0)

        assert [one["inserted_count"] for one in first] == [1]
        assert (told, heard(attacker)) == ([], [])
        pending = "SELECT count(*) FROM pgtrickle.pgt_subscriptions WHERE pending_inserted > 0"
        assert lab.value(pending) == 0


LOCKS = (
    "SELECT * FROM pgtrickle.pgt_subscriptions FOR UPDATE",
    "DELETE FROM pgtrickle.pgt_subscriptions",
    "LOCK TABLE pgtrickle.pgt_subscriptions IN ACCESS EXCLUSIVE MODE",
    "LOCK TABLE pgtrickle.pgt_watermark_groups IN ACCESS EXCLUSIVE MODE",
)


@pytest.mark.parametrize("lock", LOCKS)
def test_no_subscriber_can_hold_a_refresh_up(bench: Bench, lock: str):
    with stocked(bench, "attacker"):
        allowed(bench, "attacker")
        bench.open("attacker").execute(MINE.encode())

        assert refused(bench.open("attacker", autocommit=False), lock) == "42501"


def test_stranger_hears_names_and_counts_and_no_value(bench: Bench):
    with stocked(bench) as lab:
        stranger = bench.open("attacker")
        for channel in ("pg_trickle_refresh", "pg_trickle_alert", "pg_trickle_wake"):
            stranger.execute(f"LISTEN {channel}".encode())
        change(bench, lab, 4711)

        [notice] = heard(stranger)

    assert set(notice) == {"name", "refresh_id", "action", "inserted_count", "deleted_count"}
    assert "4711" not in json.dumps(notice | {"refresh_id": 0})


FORGED = ["9" * 5000, "\u0664\u0662", "-1", "", "x" * 7000, "18446744073709551616"]


def test_forged_rings_do_not_make_the_bell_deaf(bench: Bench):
    with stocked(bench) as lab, listening_for_changes(lab.trickle._runtime) as bell:
        [(stream_table, source)] = lab.rows(
            "SELECT pgt_id, 'shop.orders'::regclass::oid::bigint FROM pgtrickle.pgt_stream_tables"
        )
        bell.watch([stream_table])
        time.sleep(0.5)
        attacker = bench.open("attacker")
        for payload in FORGED:
            attacker.execute("SELECT pg_notify('pg_trickle_wake', %s)", [payload])
        time.sleep(0.5)

        attacker.execute("SELECT pg_notify('pg_trickle_wake', %s)", [str(source)])

        until(lambda: bell.rung)
        assert set(bell.answer()) == {stream_table}


def test_flood_of_forged_rings_wakes_only_so_often(bench: Bench):
    with stocked(bench) as lab, listening_for_changes(lab.trickle._runtime) as bell:
        [(stream_table, source)] = lab.rows(
            "SELECT pgt_id, 'shop.orders'::regclass::oid::bigint FROM pgtrickle.pgt_stream_tables"
        )
        attacker = bench.open("attacker")
        woken, began = 0, time.monotonic()
        while time.monotonic() - began < 3:
            bell.watch([stream_table])
            attacker.execute("SELECT pg_notify('pg_trickle_wake', %s)", [str(source)])
            woken += len(bell.answer())

        assert woken <= 3 * 20 + 5
