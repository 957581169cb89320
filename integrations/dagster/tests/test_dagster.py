"""A real Dagster materializes, checks and hears of stream tables that a real daemon maintains."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from dagster import (
    AssetKey,
    DagsterInstance,
    Definitions,
    EnvVar,
    build_sensor_context,
    materialize,
)
from dagster_pgtrickle import PgTrickle, refresh_sensor, stream_table_assets, stream_table_checks
from served_shop import Shop, served_shop

REVENUE = AssetKey(["public", "revenue"])
BEST = AssetKey(["public", "best"])


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with served_shop() as opened:
        yield opened


@pytest.fixture
def database(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> PgTrickle:
    monkeypatch.setenv("SHOP_DSN", shop.dsn)
    return PgTrickle(dsn=EnvVar("SHOP_DSN"))


def test_assets_are_the_graph_of_the_database(database: PgTrickle) -> None:
    definitions = Definitions(assets=stream_table_assets(database))
    graph = definitions.resolve_asset_graph()
    assert graph.get(BEST).parent_keys == {REVENUE}
    assert graph.get(REVENUE).parent_keys == {
        AssetKey(["public", "orders"]),
        AssetKey(["public", "customers"]),
    }
    assert graph.get(REVENUE).metadata["schedule"] == "1h"


def test_materializing_refreshes_by_the_daemon_in_order(shop: Shop, database: PgTrickle) -> None:
    shop.order(10, 2, 100)
    done = materialize(stream_table_assets(database))
    assert done.success
    assert shop.rows("SELECT total FROM best") == [(125,)]
    [event] = done.asset_materializations_for_node("public__revenue")
    assert event.metadata["action"].value == "DIFFERENTIAL"
    assert event.metadata["rows_inserted"].value == 1
    # The daemon did it, not this process.
    asked = "SELECT count(*) FROM pgtrickle.requests WHERE verb = 'refresh_stream_table'"
    assert shop.rows(asked) == [(2,)]


def test_a_failing_refresh_fails_the_asset(shop: Shop, database: PgTrickle) -> None:
    shop.connection.execute("CREATE TABLE broken (id int)")
    shop.trickle.create_stream_table("doomed", "SELECT id FROM broken", "1h")
    assets = stream_table_assets(database, ["doomed"])
    shop.trickle.drop_stream_table("doomed")
    done = materialize(assets, raise_on_error=False)
    assert not done.success
    [failure] = [one for one in done.all_events if one.is_step_failure]
    assert '"public.doomed" does not exist' in failure.step_failure_data.error.to_string()


def test_checks_tell_the_age_and_what_differs(shop: Shop, database: PgTrickle) -> None:
    shop.trickle.refresh_stream_table("revenue")

    def outcomes(max_age: timedelta) -> dict[str, bool]:
        checks = stream_table_checks(database, ["revenue"], max_age=max_age, verify=True)
        done = materialize([*stream_table_assets(database, ["revenue"]), *checks])
        return {one.check_name: one.passed for one in done.get_asset_check_evaluations()}

    assert outcomes(timedelta(hours=1)) == {"fresh": True, "verified": True}
    assert outcomes(timedelta(0)) == {"fresh": False, "verified": True}


def test_sensor_reports_what_the_schedule_refreshed_and_nothing_twice(
    shop: Shop, database: PgTrickle
) -> None:
    sensor = refresh_sensor(database)
    instance = DagsterInstance.ephemeral()

    def look(cursor: str | None):
        with build_sensor_context(instance=instance, cursor=cursor) as context:
            return sensor.evaluate_tick(context)

    first = look(None)
    assert not first.asset_events
    shop.trickle.refresh_stream_table("revenue")  # by hand: not the schedule
    shop.trickle.alter_stream_table("revenue", schedule="1s")
    shop.order(20, 1, 7)
    cursor, told, until = first.cursor, [], time.monotonic() + 60
    while not told and time.monotonic() < until:
        tick = look(cursor)
        cursor, told = tick.cursor, list(tick.asset_events)
    [event] = told
    assert event.asset_key == REVENUE
    assert event.metadata["rows_inserted"].value == 1
    assert not look(cursor).asset_events
    shop.trickle.alter_stream_table("revenue", schedule="1h")
