"""Verbs take members of enums wherever they take words."""

from __future__ import annotations

import pytest

from pgtrickle import (
    CdcMode,
    DiamondConsistency,
    DiamondSchedulePolicy,
    FuseMode,
    Isolation,
    RefreshMode,
    Status,
    Tier,
)
from tests.labs.lab import Lab

QUERY = "SELECT count(*) AS n FROM t"


@pytest.fixture
def counted(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (a int)")
    lab.trickle.create_stream_table(
        "counted",
        QUERY,
        refresh_mode=RefreshMode.DIFFERENTIAL,
        cdc_mode=CdcMode.TRIGGER,
        diamond_consistency=DiamondConsistency.ATOMIC,
        diamond_schedule_policy=DiamondSchedulePolicy.SLOWEST,
    )
    return lab


def test_stream_table_is_created_and_altered_by_members(counted: Lab):
    altered = counted.trickle.alter_stream_table(
        "counted", refresh_mode=RefreshMode.FULL, status=Status.SUSPENDED, tier=Tier.COLD
    )

    assert (altered.refresh_mode, altered.status, altered.tier, altered.cdc_mode) == (
        RefreshMode.FULL,
        Status.SUSPENDED,
        Tier.COLD,
        CdcMode.TRIGGER,
    )


def test_same_members_again_change_nothing(counted: Lab):
    outcome = counted.trickle.create_or_replace_stream_table(
        "counted",
        QUERY,
        refresh_mode=RefreshMode.DIFFERENTIAL,
        cdc_mode=CdcMode.TRIGGER,
        diamond_consistency=DiamondConsistency.ATOMIC,
    )

    assert outcome.status == "unchanged"


def test_fuses_and_groups_take_both(counted: Lab):
    counted.create("other", QUERY)
    counted.trickle.scheduler.set_fuse("counted", "auto", ceiling=10)
    counted.trickle.scheduler.set_fuse("other", FuseMode.ON, ceiling=10)
    counted.trickle.scheduler.create_refresh_group(
        "one", ["counted", "other"], Isolation.READ_COMMITTED
    )

    modes = {one.stream_table: one.fuse_mode for one in counted.trickle.scheduler.fuse_status()}
    assert modes == {"public.counted": "auto", "public.other": "on"}
    counted.trickle.scheduler.drop_refresh_group("one")
