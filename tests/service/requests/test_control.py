"""The scheduler is held back and let go on from SQL, by those who own what it concerns."""

from __future__ import annotations

import threading
from pathlib import Path

import psycopg
import pytest
from typer.testing import CliRunner

from pgtrickle.cli.main import app
from pgtrickle.model.scheduling.refresh_group import DEFAULT_ISOLATION
from pgtrickle.scheduler.loop import Loop
from tests.labs.lab import Lab, Row
from tests.scheduler.shop import Watched

HELD = "SELECT name, reason FROM pgtrickle.list_holds()"


@pytest.fixture
def shop(served: Lab) -> Lab:
    served.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    for table in ("source_gates", "watermarks", "watermark_groups", "scheduler_pauses"):
        served.run(f"DELETE FROM pgtrickle.pgt_{table}")
    served.run("DELETE FROM pgtrickle.pgt_refresh_groups")
    served.create("of_t", "SELECT count(*) AS n FROM t")
    served.create("of_u", "SELECT count(*) AS n FROM u")
    served.create("of_both", "SELECT x.n + y.n AS n FROM of_t AS x CROSS JOIN of_u AS y")
    return served


def refused(lab: Lab, statement: str) -> str:
    """Return the SQLSTATE with which a statement fails."""
    with pytest.raises(psycopg.Error) as caught:
        lab.run(statement)
    return str(caught.value.sqlstate)


def held(lab: Lab) -> list[Row]:
    return lab.rows(HELD)


def test_gate_holds_back_until_it_is_opened(shop: Lab):
    shop.run("SELECT pgtrickle.gate_source('t')", "SELECT pgtrickle.gate_source('public.t')")
    shop.run("INSERT INTO t VALUES (1)")
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")
    status = shop.rows(
        "SELECT source_table, gated, affected_stream_tables, gate_duration >= '0'"
        " FROM pgtrickle.bootstrap_gate_status()"
    )
    Loop(shop.trickle.daemon, Watched()).run_once(threading.Event())
    while_gated = shop.value("SELECT n FROM of_t")

    assert held(shop) == [("public.of_t", "the source public.t is gated")]
    assert status == [("public.t", True, ["public.of_t"], True)]
    assert while_gated == 0
    assert shop.value("SELECT pgtrickle.ungate_source('t')") is True
    assert shop.value("SELECT pgtrickle.ungate_source('t')") is False
    assert held(shop) == []


def test_gate_is_part_of_the_transaction_that_loads(shop: Lab):
    with shop.connection.transaction(force_rollback=True):
        shop.run("SELECT pgtrickle.gate_source('t')")

    assert held(shop) == []


def test_watermarks_are_compared_within_their_group(shop: Lab):
    shop.run(
        "SELECT pgtrickle.create_watermark_group('day', ARRAY['t', 'u'], 60)",
        "SELECT pgtrickle.advance_watermark('t', '2026-01-01 12:00+00')",
    )
    alone = held(shop)
    shop.run("SELECT pgtrickle.advance_watermark('u', '2026-01-01 12:02+00')")
    status = shop.rows(
        "SELECT sources, lag_secs, aligned, sources_with_watermark, sources_total"
        " FROM pgtrickle.watermark_status()"
    )
    apart = held(shop)
    shop.run("SELECT pgtrickle.advance_watermark('t', '2026-01-01 12:01+00')")

    assert alone == []
    assert status == [(["public.t", "public.u"], 120, False, 2, 2)]
    assert apart == [("public.of_both", "the watermarks of the group day are out of step")]
    assert held(shop) == []
    assert shop.rows("SELECT source_table FROM pgtrickle.watermarks()") == [
        ("public.t",),
        ("public.u",),
    ]
    shop.run("SELECT pgtrickle.drop_watermark_group('day')")
    assert refused(shop, "SELECT pgtrickle.drop_watermark_group('day')") == "ST501"


def test_source_that_is_gone_is_shown_by_its_number(shop: Lab):
    shop.run("CREATE TABLE gone ()")
    number = str(shop.value("SELECT 'gone'::regclass::oid"))
    shop.run(
        "SELECT pgtrickle.gate_source('gone')",
        "SELECT pgtrickle.advance_watermark('gone', '2026-01-01')",
        "SELECT pgtrickle.create_watermark_group('half', '{gone, t}')",
        "DROP TABLE gone",
    )

    for function in ("bootstrap_gate_status", "watermarks"):
        assert shop.rows(f"SELECT source_table FROM pgtrickle.{function}()") == [(number,)]
    assert shop.rows("SELECT sources FROM pgtrickle.watermark_status()") == [(["public.t"],)]
    shop.run("SELECT pgtrickle.drop_watermark_group('half')")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pgtrickle.advance_watermark('t', '2025-12-31')",
        "SELECT pgtrickle.create_watermark_group('one', ARRAY['t', 't'])",
        "SELECT pgtrickle.create_watermark_group('less', ARRAY['t', 'u'], -1)",
        "SELECT pgtrickle.create_watermark_group('taken', ARRAY['t', 'u'])",
        "CALL pgtrickle.create_refresh_group('one', '{of_t}')",
        "CALL pgtrickle.create_refresh_group('odd', '{of_t, of_u}', 'serializable')",
        "CALL pgtrickle.create_refresh_group('again', '{of_t, of_both}')",
        "CALL pgtrickle.drop_refresh_group('nothing')",
        "CALL pgtrickle.reset_fuse('of_t', 'skip_changes')",
        "CALL pgtrickle.alter_stream_table('of_t', tier => 'lukewarm')",
        "CALL pgtrickle.alter_stream_table('of_t', fuse => 'loose')",
        "CALL pgtrickle.alter_stream_table('of_t', fuse => 'on', fuse_ceiling => 0)",
        "CALL pgtrickle.alter_stream_table('of_t', diamond_consistency => 'some')",
        "SELECT pgtrickle.explain_dag('svg')",
    ],
)
def test_what_cannot_be_is_refused_with_a_code(shop: Lab, statement: str):
    shop.run(
        "SELECT pgtrickle.advance_watermark('t', '2026-01-01')",
        "SELECT pgtrickle.create_watermark_group('taken', ARRAY['t', 'u'])",
        "CALL pgtrickle.create_refresh_group('taken', '{of_t, of_u}', 'repeatable_read')",
    )

    assert refused(shop, statement) == "ST501"


def test_paused_ones_are_left_alone_and_refreshed_by_hand(shop: Lab):
    shop.run("INSERT INTO t VALUES (1)")
    paused = shop.value("CALL pgtrickle.pause_scheduler('{of_t, of_u}')")
    shop.run("CALL pgtrickle.resume_scheduler('{of_u}')")

    assert paused == {"paused": ["public.of_t", "public.of_u"]}
    assert held(shop) == [("public.of_t", "the stream table is paused")]
    shop.refresh("of_t")
    assert refused(shop, "CALL pgtrickle.pause_scheduler('{nothing}')") == "ST201"


def test_drain_waits_for_what_is_in_flight(shop: Lab):
    shop.run(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'somebody', now(), now() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'of_t'"
    )
    in_flight = shop.value("CALL pgtrickle.drain(0.3)")
    shop.run("DELETE FROM pgtrickle.pgt_leases")
    drained = shop.value("CALL pgtrickle.drain()")

    assert (in_flight, drained, shop.value("SELECT pgtrickle.is_drained()")) == (False, True, True)
    assert {reason for _, reason in held(shop)} == {"the scheduler is drained"}
    assert shop.value("SELECT pgtrickle.undrain()") is True
    assert shop.value("SELECT pgtrickle.undrain()") is False
    assert held(shop) == []


def test_quiesce_says_who_is_left_and_resume_all_ends_drain_and_pauses(shop: Lab):
    shop.run(
        "CALL pgtrickle.pause_scheduler('{of_u}')",
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'somebody', '2026-01-01 12:00+00', now() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'of_t'",
    )
    left = shop.value("CALL pgtrickle.quiesce(0.2)")
    by_python = shop.trickle.scheduler.quiesce(0.1)
    shop.run("DELETE FROM pgtrickle.pgt_leases")
    quiet = shop.value("CALL pgtrickle.quiesce()")

    assert left["quiet"] is False
    assert [(one["name"], one["daemon"]) for one in left["left"]] == [("public.of_t", "somebody")]
    [one] = by_python.left
    assert (one.stream_table, one.running_since.isoformat()) == (
        "public.of_t",
        "2026-01-01T12:00:00+00:00",
    )
    assert quiet == {"quiet": True, "left": []}
    everyone = shop.value("SELECT pgtrickle.resume_all()")
    assert {"public.of_t", "public.of_u"} <= set(everyone)
    assert held(shop) == []
    shop.run("CALL pgtrickle.pause_scheduler('{of_u}')")
    assert shop.trickle.scheduler.resume_all() == ["public.of_u"]
    assert shop.trickle.scheduler.quiesce_status().quiet is False


def test_refresh_group_is_one_of_the_groups(shop: Lab):
    shop.run("CALL pgtrickle.create_refresh_group('both', '{of_t, of_u}', 'repeatable_read')")

    assert shop.rows("SELECT group_name, members, isolation FROM pgtrickle.refresh_groups()") == [
        ("both", ["public.of_t", "public.of_u"], "repeatable_read")
    ]
    assert shop.value("CALL pgtrickle.diamond_groups()") == {
        "groups": [{"members": ["public.of_t", "public.of_u"], "schedule_policy": "fastest"}]
    }
    shop.run("CALL pgtrickle.drop_refresh_group('both')")
    assert shop.value("CALL pgtrickle.diamond_groups()") == {"groups": []}


def test_caches_of_the_daemon_are_counted_and_cleared(shop: Lab):
    shop.run("INSERT INTO t VALUES (100)", "CALL pgtrickle.refresh_stream_table('of_t')")

    counted = shop.value("CALL pgtrickle.cache_stats()")

    assert counted["entries"] >= 1
    assert shop.value("CALL pgtrickle.clear_caches()") == counted["entries"]
    assert shop.value("CALL pgtrickle.cache_stats()")["entries"] == 0


def test_fuse_blows_in_the_scheduler_and_is_reset(shop: Lab):
    shop.run(
        "CALL pgtrickle.alter_stream_table('of_t', schedule => '1s', fuse => 'on',"
        " fuse_ceiling => 2)",
        "INSERT INTO t SELECT generate_series(1, 3)",
        "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval",
    )
    Loop(shop.trickle.daemon, Watched()).run_once(threading.Event())
    ask = (
        "SELECT fuse_mode, fuse_state, fuse_ceiling, blow_reason FROM pgtrickle.fuse_status()"
        " WHERE name = 'public.of_t'"
    )
    blown = shop.rows(ask)
    [(_, reason)] = held(shop)
    shop.run("CALL pgtrickle.reset_fuse('of_t')")
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - '1h'::interval")
    after_reset = shop.rows(ask)
    Loop(shop.trickle.daemon, Watched()).run_once(threading.Event())

    assert blown == [("on", "blown", 2, "3 changed rows, more than 2")]
    assert reason == "its fuse has blown: 3 changed rows, more than 2"
    assert after_reset == [("on", "bridged", 2, None)]
    assert shop.rows(ask) == [("on", "armed", 2, None)]
    shop.check("of_t")
    assert refused(shop, "CALL pgtrickle.reset_fuse('of_t')") == "ST211"


def test_alter_changes_tier_fuse_and_diamond_and_no_more(shop: Lab):
    shop.run(
        "CALL pgtrickle.alter_stream_table('of_t', tier => 'Cold', fuse => 'auto',"
        " fuse_sensitivity => 4)",
        "CALL pgtrickle.alter_stream_table('of_t', diamond_schedule_policy => 'slowest')",
        "CALL pgtrickle.alter_stream_table('of_t', fuse_ceiling => 7)",
    )

    assert shop.rows(
        "SELECT tier, fuse, fuse_ceiling, fuse_sensitivity, diamond_consistency,"
        " diamond_schedule_policy FROM pgtrickle.stream_tables_info WHERE pgt_name = 'of_t'"
    ) == [("cold", "auto", 7, 4.0, None, "slowest")]


def test_another_query_replaces_the_contents_and_the_same_does_not(shop: Lab):
    statement = "CALL pgtrickle.alter_stream_table('of_t', query => '{}')"
    shop.run(statement.format("select  COUNT(*) as n\nfrom t"))
    same = shop.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history")
    shop.run(statement.format("SELECT count(*) + 1 AS n FROM t"))
    shop.queries["of_t"] = "SELECT count(*) + 1 AS n FROM t"

    shop.check("of_t")
    assert shop.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history") == same + 1


def test_graph_is_drawn(shop: Lab):
    numbers: dict[str, int] = dict(
        shop.rows("SELECT relname, oid FROM pg_class WHERE relname IN ('t', 'of_t')")
    )
    mermaid = shop.value("SELECT pgtrickle.explain_dag()").splitlines()
    dot = shop.value("SELECT pgtrickle.explain_dag('dot')").splitlines()

    assert mermaid[0] == "graph LR"
    assert f'  n{numbers["t"]}(["public.t"])' in mermaid
    assert f"  n{numbers['t']} --> n{numbers['of_t']}" in mermaid
    assert f'  n{numbers["of_t"]} [label="public.of_t", shape=box];' in dot
    assert (dot[0], dot[-1]) == ("digraph stream_tables {", "}")


def test_delta_is_shown_as_the_engine_computes_it(shop: Lab):
    shown = shop.value("CALL pgtrickle.explain_delta('of_t')")

    assert shown.startswith("-- stage ")
    assert "SELECT" in shown


def test_errors_are_explained_by_their_kind(shop: Lab):
    shop.run("CREATE TABLE v (a int)", "INSERT INTO v VALUES (1)")
    shop.create("inverse", "SELECT 1 / a AS b FROM v", mode="FULL")
    shop.run("INSERT INTO v VALUES (0)")
    failed = refused(shop, "CALL pgtrickle.refresh_stream_table('inverse')")

    [told] = shop.value("CALL pgtrickle.diagnose_errors('inverse')")["errors"]

    assert (told["error_code"], told["error_class"]) == (failed, "never")
    assert told["meaning"]
    assert told["remedy"]
    assert shop.value("CALL pgtrickle.diagnose_errors('of_t')") == {"errors": []}


def test_stream_table_is_told_in_rows(shop: Lab):
    told: dict[str, str] = dict(shop.rows("SELECT * FROM pgtrickle.explain_st('of_t')"))

    assert told["name"] == "public.of_t"
    assert told["sources"] == "public.t (table)"
    assert told["state_tables"].startswith("st_")
    assert int(told["last_refreshes"]) > 0
    assert refused(shop, "SELECT * FROM pgtrickle.explain_st('nowhere')") == "ST201"


def test_passes_of_a_query_are_shown(shop: Lab):
    shop.run("CREATE VIEW of_view AS SELECT a FROM t", "CREATE TABLE measured (x float8)")
    bind, lower, cut = shop.value(
        "CALL pgtrickle.explain_query_rewrite('SELECT count(*) AS n FROM of_view')"
    )["passes"]
    _, refusal = shop.value(
        "CALL pgtrickle.explain_query_rewrite('SELECT DISTINCT m AS whole FROM measured AS m')"
    )["passes"]

    assert (bind["pass"], lower["pass"], cut["pass"]) == ("bind", "lower", "cut")
    assert "FROM public.of_view" in bind["sql_after"]
    assert "γ[" in lower["sql_after"]
    assert "group_1" in cut["sql_after"]
    assert refusal["refused"]


def test_refresh_group_is_the_same_however_it_is_made(shop: Lab):
    """Nobody says which isolation he wants: client, command and procedure take the same."""
    isolation = "SELECT isolation FROM pgtrickle.refresh_groups()"
    found = []
    for make in (
        lambda: shop.trickle.scheduler.create_refresh_group("both", ["of_t", "of_u"]),
        lambda: shop.run("CALL pgtrickle.create_refresh_group('both', '{of_t, of_u}')"),
        lambda: CliRunner().invoke(
            app,
            ["group", "create", "both", "of_t", "of_u", "--dsn", shop.trickle.dsn],
            catch_exceptions=False,
        ),
    ):
        make()
        found.append(shop.value(isolation))
        shop.trickle.scheduler.drop_refresh_group("both")

    assert found == [DEFAULT_ISOLATION.value] * 3


def test_copy_in_the_lake_is_asked_for_from_sql(shop: Lab, tmp_path: Path):
    shop.run(
        "CALL pgtrickle.create_stream_table('ids', 'SELECT a FROM t', sink => 'ducklake',"
        f" ducklake_sink_path => '{tmp_path}', ducklake_table => 'all_ids')"
    )
    sinks = "SELECT stream_table, lake_table, status FROM pgtrickle.ducklake_sink_status()"
    [created] = shop.rows(sinks)
    shop.run("CALL pgtrickle.alter_stream_table('ids', sink => 'none')")
    ended = shop.rows(sinks)
    shop.run("CALL pgtrickle.drop_stream_table('ids')")

    assert created == ("public.ids", "main.all_ids", "DELIVERED")
    assert ended == []
    wrong = "CALL pgtrickle.create_stream_table('ids', 'SELECT a FROM t', sink => 'sea')"
    assert refused(shop, wrong) == "ST703"


def paused(lab: Lab) -> list[Row]:
    return lab.rows("SELECT source_table FROM pgtrickle.check_cdc_health() WHERE alert = 'paused'")


def test_capture_is_paused_and_resumed_by_the_names_of_the_caller(shop: Lab):
    shop.run("CREATE SCHEMA IF NOT EXISTS elsewhere", "SET search_path = elsewhere, public")

    assert shop.value("CALL pgtrickle.pause_cdc('{t}')") == {"paused": ["public.t"]}
    assert shop.value("CALL pgtrickle.pause_cdc('{}')") == {"paused": []}
    assert paused(shop) == [("public.t",)]
    rest = ["public.u", "public.of_t", "public.of_u"]
    assert shop.value("CALL pgtrickle.pause_cdc()") == {"paused": rest}
    shop.run("INSERT INTO t VALUES (1)")
    assert shop.value("CALL pgtrickle.resume_cdc()") == {"resumed": ["public.t", *rest]}
    assert paused(shop) == []
    assert shop.value("CALL pgtrickle.refresh_stream_table('of_t')")["action"] == "REINITIALIZE"
    assert refused(shop, "CALL pgtrickle.pause_cdc('{nothing}')") == "ST301"
    shop.run("RESET search_path")


def test_triggers_of_capture_are_made_again(shop: Lab):
    shop.run("ALTER TABLE t DISABLE TRIGGER USER")

    mended = shop.value("CALL pgtrickle.rebuild_cdc_triggers()")["mended"]

    assert {"source": "public.t", "what": "triggers created again: triggers disabled"} in mended
