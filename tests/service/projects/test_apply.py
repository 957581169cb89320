"""What the files of a project say is what the database has after it was applied."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pgtrickle import Trickle
from pgtrickle.errors import ColumnsDifferError, ProjectRefusedError, TrickleError
from pgtrickle.model.projects.plan import AppliedStep
from tests.labs.lab import Lab
from tests.service.projects.folders import FILES, actions, prepare, write

ALL = {"public.big": "create", "public.by_region": "create", "public.top": "create"}


@pytest.fixture
def shop(postgres_lab: Lab) -> Lab:
    prepare(postgres_lab)
    return postgres_lab


def applied(lab: Lab, folder: Path, **more: object) -> dict[str, str]:
    done = lab.trickle.projects.apply_project(folder, **more)  # type: ignore[arg-type]
    return {str(one.name): one.status for one in done}


def test_project_is_planned_applied_and_then_as_it_should_be(shop: Lab, tmp_path: Path) -> None:
    write(tmp_path)

    plan = shop.trickle.projects.plan_project(tmp_path)
    assert (plan.project, plan.target, actions(plan)) == ("shop", "prod", ALL)
    assert shop.trickle.list_stream_tables() == []
    assert "SHARE ROW EXCLUSIVE on public.orders" in plan.steps[0].locks[0]
    assert all(one.estimated_ms for one in plan.steps)

    told: list[AppliedStep] = []
    done = shop.trickle.projects.apply_project(tmp_path, tell=told.append)

    assert [one.status for one in done] == ["created"] * 3
    assert told == list(done)
    assert shop.rows("SELECT region, total FROM by_region") == [("north", 10), ("south", 20)]
    assert shop.rows("SELECT total FROM top") == [(20,)]
    assert shop.trickle.get_stream_table("big").schedule == "1m"
    assert shop.value("SELECT obj_description('big'::regclass)") == "Orders that matter"
    assert shop.value("SELECT col_description('big'::regclass, 3)") == "In euros"
    assert shop.rows(
        "SELECT pgt_name, project, target, file, owner, tags, jsonb_array_length(tests)"
        " FROM pgtrickle.project_tables WHERE pgt_name = 'big'"
    ) == [("big", "shop", "prod", "stream_tables/big.sql", "Ann", ["sales"], 3)]

    again = shop.trickle.projects.plan_project(tmp_path)
    assert set(actions(again).values()) == {"unchanged"}
    assert again.pending == ()
    assert set(applied(shop, tmp_path).values()) == {"unchanged"}


def test_changed_file_touches_one_stream_table(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    before = shop.value("SELECT max(refresh_id) FROM pgtrickle.pgt_refresh_history")
    write(tmp_path, by_region=FILES["by_region"].replace("sum(amount)", "sum(2 * amount)"))

    [step] = shop.trickle.projects.plan_project(tmp_path).pending
    assert (str(step.name), step.action, step.changed) == ("public.by_region", "rebuild", "query")
    assert step.drifted is False
    assert step.locks[-1].startswith("ROW EXCLUSIVE on public.by_region")
    statuses = applied(shop, tmp_path)

    assert statuses == {
        "public.big": "unchanged", "public.by_region": "rebuilt", "public.top": "unchanged"
    }  # fmt: skip
    assert shop.rows("SELECT region, total FROM by_region") == [("north", 20), ("south", 40)]
    touched = shop.rows(
        "SELECT DISTINCT s.pgt_name FROM pgtrickle.pgt_refresh_history AS h"
        f" JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id) WHERE h.refresh_id > {before}"
    )
    assert touched == [("by_region",)]
    assert shop.trickle.projects.plan_project(tmp_path).pending == ()


def test_option_is_altered_in_place_and_left_out_goes_back(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    changed = FILES["by_region"].replace(
        "---\nSELECT", "schedule: 5m\ntier: cold\nsla: 2m\n---\nSELECT"
    )
    write(tmp_path, by_region=changed)

    [step] = shop.trickle.projects.plan_project(tmp_path).pending
    assert step.action == "alter"
    assert {(one.field, one.before, one.after) for one in step.changes} == {
        ("schedule", "1m", "5m"), ("tier", "hot", "cold"), ("sla", None, "120s")
    }  # fmt: skip
    assert step.estimated_ms is None
    assert applied(shop, tmp_path)["public.by_region"] == "altered"
    assert shop.trickle.get_stream_table("by_region").tier.value == "cold"

    write(tmp_path)
    assert applied(shop, tmp_path)["public.by_region"] == "altered"
    found = shop.trickle.get_stream_table("by_region")
    assert (found.schedule, found.tier.value) == ("1m", "hot")


def test_new_stream_tables_that_read_one_another_are_checked_before_they_exist(
    shop: Lab, tmp_path: Path
) -> None:
    write(tmp_path, top="SELECT max(nothing) AS total FROM {{ ref('by_region') }}")

    plan = shop.trickle.projects.plan_project(tmp_path)
    [step] = plan.refused
    assert str(step.name) == "public.top"
    assert step.problems[0].code == "ST105"
    with pytest.raises(ProjectRefusedError, match="1 stream tables"):
        shop.trickle.projects.apply_project(tmp_path)
    assert shop.trickle.list_stream_tables() == []
    assert shop.rows("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'pgtrickle_plan%'") == []


def test_column_that_comes_with_the_same_plan_may_be_read(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    write(
        tmp_path,
        by_region="SELECT region, sum(amount) AS total, count(*) AS orders"
        " FROM {{ ref('big') }} GROUP BY region",
        top="SELECT max(total) AS total, sum(orders) AS orders FROM {{ ref('by_region') }}",
    )

    plan = shop.trickle.projects.plan_project(tmp_path)
    assert [one.action for one in plan.pending] == ["rebuild", "rebuild"]
    assert plan.pending[0].locks[-1].startswith("ACCESS EXCLUSIVE on public.by_region")
    applied(shop, tmp_path)
    assert shop.rows("SELECT total, orders FROM top") == [(20, 2)]


def test_target_has_its_own_schemas_and_values(shop: Lab, tmp_path: Path) -> None:
    write(tmp_path)
    plan = shop.trickle.projects.plan_project(tmp_path, target="dev")
    assert plan.schemas == ("dev_public",)
    applied(shop, tmp_path, target="dev")
    applied(shop, tmp_path, variables={"least": "20"})

    assert shop.rows("SELECT region, total FROM dev_public.by_region") == [
        ("north", 15), ("south", 20)
    ]  # fmt: skip
    assert shop.rows("SELECT region, total FROM public.by_region") == [("south", 20)]
    for target in ("dev", "prod"):
        given = {"least": 20} if target == "prod" else {}
        again = shop.trickle.projects.plan_project(tmp_path, target=target, variables=given)
        assert again.pending == ()


def test_file_that_is_gone_drops_only_if_asked(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    shop.trickle.create_stream_table("mine", "SELECT id FROM orders")
    write(tmp_path, top=None, by_region=None)

    plan = shop.trickle.projects.plan_project(tmp_path)
    assert [(str(one.name), one.action) for one in plan.pending] == [
        ("public.top", "drop"), ("public.by_region", "drop")
    ]  # fmt: skip
    assert applied(shop, tmp_path)["public.top"] == "kept"
    assert applied(shop, tmp_path, prune=True)["public.top"] == "dropped"
    left = [one.name.name for one in shop.trickle.list_stream_tables()]
    assert left == ["big", "mine"]


def test_what_was_altered_in_the_database_is_drift(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    shop.trickle.alter_stream_table("big", schedule="9m")
    shop.trickle.alter_stream_table("top", query="SELECT min(total) AS total FROM by_region")

    drifted = shop.trickle.projects.plan_project(tmp_path).pending
    assert [(one.name.name, one.action, one.drifted) for one in drifted] == [
        ("big", "alter", True), ("top", "rebuild", True)
    ]  # fmt: skip
    applied(shop, tmp_path)
    assert shop.trickle.get_stream_table("big").schedule == "1m"
    assert shop.rows("SELECT total FROM top") == [(20,)]


def test_interrupted_application_is_completed(shop: Lab, tmp_path: Path) -> None:
    write(tmp_path)

    def stop(one: AppliedStep) -> None:
        if one.name.name == "by_region":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shop.trickle.projects.apply_project(tmp_path, tell=stop)
    assert applied(shop, tmp_path) == {
        "public.big": "unchanged", "public.by_region": "unchanged", "public.top": "created"
    }  # fmt: skip


def test_stream_table_that_agrees_is_adopted(shop: Lab, tmp_path: Path) -> None:
    shop.trickle.create_stream_table("sole", "SELECT region FROM orders", schedule="1m")
    write(tmp_path, big=None, by_region=None, top=None, sole="SELECT  region -- here\nFROM orders;")

    assert actions(shop.trickle.projects.plan_project(tmp_path)) == {"public.sole": "adopt"}
    assert applied(shop, tmp_path) == {"public.sole": "adopted"}
    assert applied(shop, tmp_path) == {"public.sole": "unchanged"}


def test_stream_table_of_another_project_is_refused(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    write(tmp_path, project="project: other\nvariables: {least: 1}")

    refused = shop.trickle.projects.plan_project(tmp_path).refused
    assert len(refused) == 3
    assert "belongs to the project shop" in str(refused[0].problems[0])


def test_name_of_another_relation_is_refused(shop: Lab, tmp_path: Path) -> None:
    write(tmp_path, orders="SELECT 1 AS one")

    [step] = shop.trickle.projects.plan_project(tmp_path).refused
    assert (step.name.name, step.problems[0].code) == ("orders", "ST202")


def test_breaking_columns_need_a_word_in_the_file(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    breaking = "SELECT max(total)::text AS total FROM {{ ref('by_region') }}"
    write(tmp_path, top=breaking)
    [step] = shop.trickle.projects.plan_project(tmp_path).refused
    assert isinstance(step.problems[0], ColumnsDifferError)

    write(tmp_path, top=f"---\nallow_breaking: true\n---\n{breaking}")
    [step] = shop.trickle.projects.plan_project(tmp_path).pending
    assert "breaks its readers" in step.notes[0]
    applied(shop, tmp_path)
    assert shop.rows("SELECT total FROM top") == [("20",)]


def test_query_may_be_replaced_by_a_shadow_build(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    query = "SELECT min(total) AS total FROM {{ ref('by_region') }}"
    write(tmp_path, top=f"---\non_change: shadow\nschedule: 3m\n---\n{query}")

    [step] = shop.trickle.projects.plan_project(tmp_path).pending
    assert (step.action, step.changed) == ("shadow", "query, schedule")
    assert applied(shop, tmp_path)["public.top"] == "shadow begun"  # and ended: there is no daemon
    assert shop.rows("SELECT total FROM top") == [(10,)]
    assert shop.trickle.projects.plan_project(tmp_path).pending == ()


def test_indexes_and_privileges_of_a_file_are_made(shop: Lab, tmp_path: Path) -> None:
    front = (
        "---\ntable:\n  objects:\n"
        "    - {kind: index, name: top_total, definition: USING btree (total)}\n"
        "  grants:\n    - {privileges: [SELECT]}\n---\n"
    )
    write(tmp_path, top=front + FILES["top"])

    applied(shop, tmp_path)
    assert ("top_total",) in shop.rows("SELECT indexname FROM pg_indexes WHERE tablename = 'top'")
    assert shop.value("SELECT has_table_privilege('pg_monitor', 'top', 'SELECT')")
    assert shop.trickle.projects.plan_project(tmp_path).pending == ()


def test_plan_holds_no_lock_that_others_feel(shop: Lab, tmp_path: Path) -> None:
    applied(shop, write(tmp_path))
    write(tmp_path, big=FILES["big"].replace("id, region", "id, upper(region) AS region"))
    with psycopg.connect(shop.trickle.dsn) as writer:
        writer.execute("UPDATE orders SET amount = 11 WHERE id = 1")
        writer.execute("LOCK TABLE big IN ACCESS SHARE MODE")
        [step] = shop.trickle.projects.plan_project(tmp_path).pending
        writer.rollback()
    assert step.action == "rebuild"


def test_failure_in_the_middle_leaves_what_was_done_and_says_why(shop: Lab, tmp_path: Path) -> None:
    # The plan cannot know that the load divides by zero.
    write(tmp_path, by_region="SELECT region, 1 / (sum(amount) - 10) AS total"
          " FROM {{ ref('big') }} GROUP BY region")  # fmt: skip
    with pytest.raises(TrickleError):
        applied(shop, tmp_path)
    assert [one.name.name for one in shop.trickle.list_stream_tables()] == ["big"]

    write(tmp_path)
    assert set(applied(shop, tmp_path).values()) == {"unchanged", "created"}


def test_client_of_another_schema_changes_nothing(shop: Lab, tmp_path: Path) -> None:
    assert isinstance(shop.trickle, Trickle)
    write(tmp_path, project="project: shop\nschema: Sales Figures\nvariables: {least: 1}")
    assert applied(shop, tmp_path)['"Sales Figures".top'] == "created"
    assert shop.rows('SELECT total FROM "Sales Figures".top') == [(20,)]


def test_copy_in_a_lake_is_made_kept_and_ended(shop: Lab, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    front = f"---\nsink: ducklake\nducklake_sink_path: {lake}\n---\n"
    write(tmp_path, top=front + FILES["top"])
    applied(shop, tmp_path)
    assert [str(one.stream_table) for one in shop.trickle.lake.ducklake_sink_status()] == [
        "public.top"
    ]
    assert shop.trickle.projects.plan_project(tmp_path).pending == ()

    keyed = front.replace("---\n", "---\nducklake_partition_by: total\n", 1)
    write(tmp_path, top=keyed + FILES["top"])
    [step] = shop.trickle.projects.plan_project(tmp_path).pending
    assert "ducklake_partition_by" in step.changed
    write(tmp_path)
    [step] = shop.trickle.projects.plan_project(tmp_path).pending
    assert (step.action, "sink" in step.changed) == ("alter", True)
    applied(shop, tmp_path)
    assert shop.trickle.lake.ducklake_sink_status() == []
    assert shop.trickle.projects.plan_project(tmp_path).pending == ()
