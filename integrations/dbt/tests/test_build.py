"""``dbt build`` makes stream tables that follow their sources, and changes them in place."""

from __future__ import annotations

import json

from conftest import Dbt

REVENUE = "SELECT region, orders, total FROM analytics.revenue"
IDS = "SELECT pgt_name, pgt_id FROM pgtrickle.pgt_stream_tables WHERE pgt_schema = 'analytics'"


def test_build_makes_stream_tables_that_follow_and_stay(dbt: Dbt) -> None:
    dbt("build")
    assert set(dbt.results().values()) <= {"success", "pass", "no-op"}  # an exposure
    assert dbt.rows(REVENUE) == [("north", 1, 10), ("south", 1, 25)]
    made = dbt.rows(IDS)
    assert [name for name, _ in made] == ["big_orders", "counted", "revenue"]
    found = dbt.trickle.get_stream_table("analytics.big_orders")
    assert found.schedule == "1m"
    assert dbt.trickle.get_stream_table("analytics.revenue").tier.value == "warm"
    assert dbt.rows("SELECT obj_description('analytics.big_orders'::regclass)") == [
        ("Orders that matter",)
    ]
    assert dbt.rows(
        "SELECT has_table_privilege('pg_monitor', 'analytics.revenue', 'SELECT'),"
        " (SELECT count(*) FROM pg_indexes WHERE indexname = 'big_orders_id_key')"
    ) == [(True, 1)]

    dbt.connection.execute("INSERT INTO shop.orders VALUES (4, 2, 30)")
    dbt("build")
    assert dbt.rows(REVENUE) == [("north", 1, 10), ("south", 2, 55)]
    # The table below it was built anew, under the same name.
    assert dbt.rows("SELECT orders FROM analytics.counted") == [(4,)]
    assert dbt.rows(IDS) == made
    for name in ("big_orders", "counted", "revenue"):
        assert dbt.trickle.verify_stream_table(f"analytics.{name}").ok


def test_another_query_changes_the_same_table(dbt: Dbt) -> None:
    dbt("build")
    before = dbt.rows(IDS)
    dbt("build", "--vars", "{least: 20}")
    assert dbt.rows(IDS) == before
    assert dbt.rows(REVENUE) == [("south", 1, 25)]

    dbt("run", "--full-refresh", "--select", "revenue")
    assert dict(dbt.rows(IDS))["revenue"] != dict(before)["revenue"]
    assert dict(dbt.rows(IDS))["big_orders"] == dict(before)["big_orders"]
    assert dbt.rows(REVENUE) == [("south", 1, 25)]


def test_changes_of_columns_are_taken_or_refused(dbt: Dbt) -> None:
    dbt.write("counted", "select count(*) as orders from {{ ref('orders_clean') }}")
    dbt("run")
    more = "select count(*) as orders, 1 as one from {{ ref('orders_clean') }}"
    dbt.write("counted", "{{ config(on_schema_change='fail') }}" + more)
    said = dbt("run", "--select", "counted", fails=True)
    assert "on_schema_change is fail" in said
    dbt.write("counted", more)
    dbt("run", "--select", "counted")
    assert dbt.rows("SELECT orders, one FROM analytics.counted") == [(3, 1)]
    retyped = "select count(*)::text as orders from {{ ref('orders_clean') }}"
    dbt.write("counted", retyped)
    said = dbt("run", "--select", "counted", fails=True)
    assert "cannot get the columns of the new query in place" in said
    dbt.write("counted", "{{ config(on_schema_change='sync_all_columns') }}" + retyped)
    dbt("run", "--select", "counted")
    assert dbt.rows("SELECT orders FROM analytics.counted") == [("3",)]


def test_broken_contract_and_mistakes_fail_the_model(dbt: Dbt) -> None:
    dbt.write("revenue", "select region, 1 as orders from {{ ref('big_orders') }}")
    assert "contract" in dbt("build", "--select", "+revenue", fails=True)
    dbt.write("counted", "select nothing from {{ ref('orders_clean') }}")
    dbt("build", "--select", "+counted", fails=True)
    assert dbt.results()["counted"] == "error"
    assert [name for name, _ in dbt.rows(IDS)] == ["big_orders"]


def test_model_may_become_a_stream_table_and_back(dbt: Dbt) -> None:
    text = "select region from {{ source('shop', 'customers') }}"
    dbt.write("regions", "{{ config(materialized='view') }}" + text)
    dbt("run", "--select", "regions")
    dbt.write("regions", text)
    dbt("run", "--select", "regions")
    assert [name for name, _ in dbt.rows(IDS)] == ["regions"]


def test_operations_refresh_report_and_drop(dbt: Dbt) -> None:
    dbt("build")
    dbt.connection.execute("INSERT INTO shop.orders VALUES (9, 1, 90)")
    dbt("run-operation", "refresh_all")
    assert ("north", 2, 100) in dbt.rows(REVENUE)
    dbt("run-operation", "refresh", "--args", "{names: analytics.counted}")
    assert "OK" in dbt("run-operation", "operational_status")
    assert "shop.orders" in dbt("run-operation", "check_cdc_health")
    dbt("docs", "generate")
    catalog = json.loads((dbt.folder / "target" / "catalog.json").read_text())
    assert "model.example.revenue" in catalog["nodes"]
    dbt("run-operation", "drop_all")
    assert dbt.rows(IDS) == []
