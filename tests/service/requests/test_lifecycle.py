"""The life of a stream table from SQL: each procedure does what its namesake does."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import pgtrickle
from pgtrickle.service.requests.verbs import VERBS
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.hearing import PATIENCE
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"


@pytest.fixture
def counts(served: Lab) -> Lab:
    served.run(*T, f"CALL pgtrickle.create_stream_table('counts', '{COUNTS}', schedule => '1h')")
    served.queries["counts"] = COUNTS
    return served


def test_every_verb_has_its_procedure_and_every_procedure_a_comment(lab: Lab):
    found: dict[str, str | None] = dict(
        lab.rows(
            "SELECT proname, obj_description(oid, 'pg_proc') FROM pg_proc WHERE prokind = 'p'"
            " AND pronamespace = 'pgtrickle'::regnamespace"
        )
    )

    inner = {"find_obstacle", "find_transaction_block", "await_request"}
    others = {"perform_request", "write_and_refresh", "drain", "quiesce", "explain", "explain_st"}
    assert set(found) == {*VERBS, *inner, *others}
    assert all(found.values())


def test_if_not_exists_leaves_what_exists_alone(counts: Lab):
    again = counts.value(
        "CALL pgtrickle.create_stream_table_if_not_exists('counts', 'SELECT 1 AS one')"
    )

    assert again["status"] == "exists"
    counts.check("counts")


@pytest.mark.parametrize(
    ("query", "options", "status"),
    [
        ("select  k, COUNT(*) as n\nfrom t group by k", "schedule => '1h'", "unchanged"),
        (COUNTS, "schedule => '5m'", "altered"),
        (COUNTS, "refresh_mode => 'full', schedule => '1h'", "altered"),
    ],
)
def test_create_or_replace_alters_or_leaves(counts: Lab, query: str, options: str, status: str):
    done = counts.value(
        f"CALL pgtrickle.create_or_replace_stream_table('counts', '{query}', {options})"
    )

    assert done["status"] == status


def test_create_or_replace_replaces_the_query(counts: Lab):
    another = "SELECT k, count(*) + 1 AS n FROM t GROUP BY k"
    done = counts.value(
        f"CALL pgtrickle.create_or_replace_stream_table('counts', '{another}', schedule => '1h')"
    )
    counts.queries["counts"] = another

    assert done["status"] == "replaced"
    counts.check("counts")


def test_create_or_replace_refuses_what_does_not_fit(counts: Lab):
    with pytest.raises(psycopg.Error) as caught:
        counts.run(
            "CALL pgtrickle.create_or_replace_stream_table("
            "'counts', 'SELECT 1::int8 AS n, k FROM t')"
        )

    assert caught.value.sqlstate == "ST213"
    counts.check("counts")


def test_create_or_replace_compares_diamonds_too(counts: Lab):
    statement = (
        f"CALL pgtrickle.create_or_replace_stream_table('counts', '{COUNTS}', schedule => '1h',"
        " diamond_consistency => '{}')"
    )

    assert counts.value(statement.format("atomic"))["status"] == "unchanged"
    assert counts.value(statement.format("none"))["status"] == "altered"
    assert counts.value(statement.format("NONE"))["status"] == "unchanged"


def notices_of(lab: Lab, statement: str) -> list[str]:
    """Return what the server says while it executes a statement."""
    notices: list[str] = []

    def note(told: psycopg.errors.Diagnostic) -> None:
        notices.append(told.message_primary or "")

    lab.connection.add_notice_handler(note)
    lab.run(statement)
    lab.connection.remove_notice_handler(note)
    return notices


def test_refresh_tells_why_it_did_nothing_or_recomputed(counts: Lab):
    refresh = "CALL pgtrickle.refresh_stream_table('counts')"
    [nothing] = notices_of(counts, refresh)
    counts.run("UPDATE pgtrickle.pgt_stream_tables SET needs_reinit = true")
    [recomputed] = notices_of(counts, refresh)

    assert nothing.startswith("public.counts: NO_DATA: ")
    assert recomputed.startswith("public.counts: REINITIALIZE: ")
    assert notices_of(counts, refresh.replace(")", ', "full" => true)')) == []


@pytest.mark.parametrize("verb", ["refresh", "verify"])
def test_call_waits_for_the_refresh_in_progress_and_says_so(counts: Lab, verb: str):
    counts.run(
        "INSERT INTO t VALUES (4, 4)",
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'somebody', now(), now() + interval '1 second'"
        " FROM pgtrickle.pgt_stream_tables",
    )

    [notice] = notices_of(counts, f"CALL pgtrickle.{verb}_stream_table('counts')")

    counts.check("counts")
    assert notice.startswith("public.counts: waiting, because")


def test_alter_changes_what_is_given(counts: Lab):
    counts.run(
        "CALL pgtrickle.alter_stream_table('counts', schedule => '5m', max_delta_fraction => '0.3')"
    )

    found = counts.rows(
        "SELECT schedule, max_delta_fraction, refresh_mode FROM pgtrickle.stream_tables_info"
    )
    assert found == [("5m", 0.3, "AUTO")]


def test_drop_restricts_unless_told_otherwise(counts: Lab):
    counts.run("CALL pgtrickle.create_stream_table('top', 'SELECT max(n) AS n FROM counts')")

    with pytest.raises(psycopg.Error) as caught:
        counts.run("CALL pgtrickle.drop_stream_table('counts')")
    dropped = counts.value("CALL pgtrickle.drop_stream_table('counts', cascade => true)")

    assert caught.value.sqlstate == "ST207"
    assert dropped == {"dropped": ["public.top", "public.counts"]}
    assert counts.leftovers() == []


def test_drop_tells_of_views_and_all_else(counts: Lab):
    counts.run(
        "CREATE VIEW seen AS TABLE counts",
        "CREATE FUNCTION looks(counts) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    )

    notices = notices_of(counts, "CALL pgtrickle.drop_stream_table('counts', cascade => true)")

    gone = ["function public.looks(public.counts)", "view public.seen"]
    assert notices == [f"drop cascades to {one}" for one in gone]
    assert counts.value(
        "SELECT result FROM pgtrickle.requests ORDER BY request_id DESC LIMIT 1"
    ) == {"dropped": [*gone, "public.counts"]}


def test_rename_is_followed_by_readers(counts: Lab):
    counts.run("CALL pgtrickle.create_stream_table('top', 'SELECT max(n) AS n FROM counts')")
    counts.run("CREATE SCHEMA app")

    notices = notices_of(counts, "CALL pgtrickle.rename_stream_table('counts', 'app.totals')")

    assert notices == ["public.top reads app.totals by its new name"]
    counts.run("INSERT INTO t VALUES (9, 9)", "CALL pgtrickle.refresh_stream_table('app.totals')")
    counts.run("CALL pgtrickle.refresh_stream_table('top')")
    assert counts.value("CALL pgtrickle.verify_stream_table('top')")["ok"]
    for statement in (
        "CALL pgtrickle.drop_stream_table('counts')",
        "SELECT pgtrickle.get_staleness('counts')",
    ):
        with pytest.raises(psycopg.Error, match="renamed to") as caught:
            counts.run(statement)
        assert caught.value.sqlstate == "ST201"


def test_functions_know_a_renamed_table_before_anybody_took_note(counts: Lab):
    counts.run("ALTER TABLE counts RENAME TO totals")

    assert counts.value("SELECT pgtrickle.get_staleness('totals')") is not None
    with pytest.raises(psycopg.Error, match=r'renamed to "public\.totals"'):
        counts.value("SELECT pgtrickle.get_staleness('counts')")


def test_suspended_is_refused_until_it_is_resumed(counts: Lab):
    counts.run(
        "INSERT INTO t VALUES (3, 3)",
        "CALL pgtrickle.alter_stream_table('counts', status => 'SUSPENDED')",
    )
    with pytest.raises(psycopg.Error) as caught:
        counts.run("CALL pgtrickle.refresh_stream_table('counts')")
    with psycopg.connect(counts.trickle.dsn, autocommit=True) as listener:
        listener.execute("LISTEN pg_trickle_alert")
        counts.run("CALL pgtrickle.resume_stream_table('counts')")
        [alert] = listener.notifies(timeout=PATIENCE, stop_after=1)
    counts.run("CALL pgtrickle.refresh_stream_table('counts')")

    assert caught.value.sqlstate == "ST211"
    assert '"resumed"' in alert.payload
    counts.check("counts")


def test_resume_of_what_is_active_is_an_error(counts: Lab):
    with pytest.raises(psycopg.Error) as caught:
        counts.run("CALL pgtrickle.resume_stream_table('counts')")

    assert caught.value.sqlstate == "ST211"


def test_repair_tells_what_it_did_as_text(counts: Lab):
    counts.run("DROP TRIGGER IF EXISTS pgtrickle_guard ON counts")

    told = counts.value("CALL pgtrickle.repair_stream_table('counts')")

    assert "public.t: triggers created again" in told
    assert "guard created again" in told


def test_verify_explain_and_validate_answer(counts: Lab):
    verified = counts.value("CALL pgtrickle.verify_stream_table('counts')")
    explained = counts.value("CALL pgtrickle.explain_stream_table('counts')")
    good = counts.value(f"CALL pgtrickle.validate_query('{COUNTS}')")
    bad = counts.value("CALL pgtrickle.validate_query('SELECT random() AS r FROM t')")

    assert (verified["ok"], verified["missing"], verified["extra"]) == (True, 0, 0)
    assert "stream table public.counts" in explained
    assert (good["differential"], good["sources"]) == (True, ["public.t"])
    assert (bad["differential"], [one["code"] for one in bad["reasons"]]) == (False, ["ST103"])


def test_write_and_refresh_shows_what_was_written(counts: Lab):
    done = counts.value("CALL pgtrickle.write_and_refresh('INSERT INTO t VALUES (9, 9)', 'counts')")

    assert (done["action"], done["rows_inserted"]) == ("DIFFERENTIAL", 1)
    counts.check("counts")


def test_bulk_create_makes_all_or_none(counts: Lab):
    with pytest.raises(psycopg.Error) as caught:
        counts.run(
            """CALL pgtrickle.bulk_create('[{"name": "a", "query": "SELECT id FROM t"},
            {"name": "b", "query": "SELECT nothing FROM t"}]')"""
        )
    names = "SELECT name FROM pgtrickle.pgt_status()"
    after_failure = counts.rows(names)
    made = counts.value(
        """CALL pgtrickle.bulk_create('[{"name": "a", "query": "SELECT id FROM t"},
        {"name": "b", "query": "SELECT id FROM a", "schedule": "1h"}]')"""
    )

    assert caught.value.sqlstate == "ST105"
    assert "number 1" in (caught.value.diag.message_detail or "")
    assert after_failure == [("public.counts",)]
    assert [one["name"] for one in made["created"]] == ["public.a", "public.b"]
    assert (
        counts.value("""CALL pgtrickle.bulk_alter_stream_tables('{a, b}', '{"schedule": "2m"}')""")
        == 2
    )
    assert counts.value("CALL pgtrickle.bulk_drop_stream_tables('{b, a}')") == 2
    assert counts.rows(names) == [("public.counts",)]


def test_names_mean_what_they_mean_to_the_caller(served: Lab):
    """The daemon looks in public; the caller has a path of his own, and so has his query."""
    served.run(
        "CREATE SCHEMA app",
        "CREATE TABLE app.t (id int)",
        "INSERT INTO app.t VALUES (7)",
        *T,
        "SET search_path = app, public",
    )
    try:
        made = served.value("CALL pgtrickle.create_stream_table('copy', 'SELECT id FROM t')")
        served.run("INSERT INTO t VALUES (8)", "CALL pgtrickle.refresh_stream_table('copy')")
        found = served.value("SELECT pgtrickle.stream_table_spec('copy') ->> 'name'")
    finally:
        served.run("RESET search_path")

    assert made["name"] == found == "app.copy"
    assert served.rows("TABLE app.copy") == [(7,), (8,)]


DEFINITIONS = (
    """CALL pgtrickle.create_stream_table('"It''s"', 'SELECT ''a'' AS "q""x", id FROM t',
    schedule => '3m', refresh_mode => 'FULL', cdc_mode => 'trigger', diamond_consistency => 'none',
    diamond_schedule_policy => 'slowest', max_delta_fraction => 0.3)""",
    """CALL pgtrickle.alter_stream_table('"It''s"', tier => 'warm', fuse => 'on', fuse_ceiling => 9,
    fuse_sensitivity => 3.5)""",
)
SPEC = """SELECT pgtrickle.stream_table_spec('public."It''s"')"""


def test_rows_of_the_past_are_json(counts: Lab, tmp_path: Path):
    path = tmp_path / "lake"
    counts.run(
        f"CALL pgtrickle.alter_stream_table('counts', sink => 'ducklake',"
        f" ducklake_sink_path => '{path}')"
    )
    held = counts.rows("TABLE counts")
    then = counts.value("SELECT clock_timestamp()::text")
    counts.window("DELETE FROM t")

    found = counts.value(f"CALL pgtrickle.show_as_of('counts', '{then}', '{{n, k}}')")
    now = counts.value(
        f"CALL pgtrickle.show_as_of('counts', '{found['snapshot_id'] + 1}', max_rows => 1)"
    )

    assert found["columns"] == ["n", "k"]
    assert sorted((row["k"], row["n"]) for row in found["rows"]) == sorted(held)
    assert (now["rows"], now["complete"]) == ([], True)


def run_script(lab: Lab, script: str) -> None:
    for statement in script.split(";\n"):
        if statement:
            lab.run(statement)
    lab.run("RESET search_path")


def test_exported_definition_creates_the_same_again(counts: Lab):
    counts.run(*DEFINITIONS, """CREATE VIEW reads AS TABLE "It's" """)
    counts.run(
        """CALL pgtrickle.create_stream_table('more', 'SELECT count(*) AS n FROM "It''s"')"""
    )
    script, before = counts.trickle.export_definition('"It\'s"'), counts.value(SPEC)

    run_script(counts, script)
    assert counts.value(SPEC) == before
    counts.run(
        """CALL pgtrickle.alter_stream_table('"It''s"', 'SELECT ''b'' AS "q""x", id FROM t',
        tier => 'cold', fuse => 'off', max_delta_fraction => '0.9', schedule => '9m',
        refresh_mode => 'AUTO', diamond_consistency => 'atomic')"""
    )
    run_script(counts, script)

    assert counts.value(SPEC) == before
    assert counts.value("""SELECT min("q""x") FROM reads""") == "a"
    assert counts.value("""SELECT pgtrickle.export_definition('"It''s"')""") == script


def test_exported_definition_with_a_copy_in_the_lake_runs_on_a_fresh_database(
    counts: Lab, database: str, duckdb_engine: DuckDbEngine, tmp_path: Path
):
    """And again there, where it changes nothing."""
    counts.run(*DEFINITIONS)
    counts.run(
        """CALL pgtrickle.alter_stream_table('"It''s"', sink => 'ducklake',"""
        f""" ducklake_sink_path => '{tmp_path / "a"}', ducklake_table => '"All of It"',"""
        """ ducklake_partition_by => 'id')"""
    )
    script = counts.value("""SELECT pgtrickle.export_definition('"It''s"')""")
    before = counts.value(SPEC)
    assert before["sink"] == "ducklake"

    with (
        pgtrickle.connect(database, engine=Borrowed(duckdb_engine)) as trickle,
        psycopg.connect(database, autocommit=True) as connection,
        trickle.daemon.serving_requests(),
    ):
        fresh = Lab(trickle, connection)
        fresh.run(*T)
        for _ in range(2):
            run_script(fresh, script)
            assert fresh.value(SPEC) == before | {"owner": fresh.value("SELECT current_user")}
        assert fresh.rows("SELECT lake_table, status FROM pgtrickle.ducklake_sink_status()") == [
            ('main."All of It"', "DELIVERED")
        ]
        assert fresh.rows('TABLE "It\'s"') == counts.rows('TABLE "It\'s"')
