"""What holds the scheduler back: gates, watermarks, pauses, the drain."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from pgtrickle.catalog.scheduling.holds import (
    advance_watermark,
    create_watermark_group,
    drain_scheduler,
    drop_watermark_group,
    gate_source,
    is_drained,
    list_holds,
    pause_scheduler,
    resume_scheduler,
    undrain_scheduler,
    ungate_source,
)
from pgtrickle.errors import SettingError
from pgtrickle.scheduler.loop import Loop
from tests.labs.lab import Lab
from tests.scheduler.shop import Watched

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    for table in ("source_gates", "watermarks", "watermark_groups", "scheduler_pauses"):
        lab.run(f"DELETE FROM pgtrickle.pgt_{table}")
    lab.create("of_t", "SELECT count(*) AS n FROM t")
    lab.create("of_u", "SELECT count(*) AS n FROM u")
    lab.create("of_both", "SELECT x.n + y.n AS n FROM of_t AS x CROSS JOIN of_u AS y")
    return lab


def relid(lab: Lab, name: str) -> int:
    return int(lab.value(f"SELECT '{name}'::regclass::oid"))


def held(lab: Lab) -> dict[str, str]:
    names = {table.id: table.name.name for table in lab.trickle.list_stream_tables()}
    return {names[number]: reason for number, reason in list_holds(lab.connection).items()}


def test_gate_holds_back_the_consumers_of_a_source(shop: Lab):
    gate_source(shop.connection, relid(shop, "t"))
    gate_source(shop.connection, relid(shop, "t"))
    assert held(shop) == {"of_t": "the source public.t is gated"}

    ungate_source(shop.connection, relid(shop, "t"))
    assert held(shop) == {}


def test_gated_source_is_read_by_hand_but_not_by_the_scheduler(shop: Lab):
    gate_source(shop.connection, relid(shop, "t"))
    shop.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")

    Loop(shop.trickle.daemon, Watched()).run_once(threading.Event())

    assert (shop.value("SELECT n FROM of_t"), shop.value("SELECT n FROM of_u")) == (0, 1)
    shop.refresh("of_t")


def test_watermarks_out_of_step_hold_back_who_reads_several(shop: Lab):
    sources = [relid(shop, "t"), relid(shop, "u")]
    create_watermark_group(shop.connection, "day", sources, tolerance=60)
    advance_watermark(shop.connection, sources[0], NOON)
    assert held(shop) == {}

    advance_watermark(shop.connection, sources[1], NOON + timedelta(seconds=61))
    assert held(shop) == {"of_both": "the watermarks of the group day are out of step"}

    advance_watermark(shop.connection, sources[0], NOON + timedelta(seconds=1))
    assert held(shop) == {}
    drop_watermark_group(shop.connection, "day")
    with pytest.raises(SettingError, match="does not exist"):
        drop_watermark_group(shop.connection, "day")


def test_watermark_never_goes_back(shop: Lab):
    advance_watermark(shop.connection, relid(shop, "t"), NOON)
    advance_watermark(shop.connection, relid(shop, "t"), NOON)

    with pytest.raises(SettingError, match="cannot go back"):
        advance_watermark(shop.connection, relid(shop, "t"), NOON - timedelta(seconds=1))


def test_group_of_one_source_is_refused(shop: Lab):
    number = relid(shop, "t")
    with pytest.raises(SettingError, match="needs two sources"):
        create_watermark_group(shop.connection, "g", [number, number])
    create_watermark_group(shop.connection, "g", [number, relid(shop, "u")])
    with pytest.raises(SettingError, match="already exists"):
        create_watermark_group(shop.connection, "g", [number, relid(shop, "u")])


def test_pause_of_one_and_drain_of_all(shop: Lab):
    number = shop.trickle.get_stream_table("of_t").id
    pause_scheduler(shop.connection, [number])
    pause_scheduler(shop.connection, [number])
    assert held(shop) == {"of_t": "the stream table is paused"}
    resume_scheduler(shop.connection, [number])

    assert not is_drained(shop.connection)
    drain_scheduler(shop.connection)
    drain_scheduler(shop.connection)
    assert held(shop).keys() == {"of_t", "of_u", "of_both"}
    assert is_drained(shop.connection)
    undrain_scheduler(shop.connection)
    assert held(shop) == {}
