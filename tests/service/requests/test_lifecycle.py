"""The life of a stream table from SQL: each procedure does what its namesake does."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.service.requests.verbs import VERBS
from tests.service.hearing import PATIENCE
from tests.service.lab import Lab

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

    assert set(found) == {*VERBS, "perform_request", "write_and_refresh", "drain"}
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


def test_refresh_waits_for_the_one_in_progress_and_says_so(counts: Lab):
    counts.run(
        "INSERT INTO t VALUES (4, 4)",
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'somebody', now(), now() + interval '1 second'"
        " FROM pgtrickle.pgt_stream_tables",
    )

    [notice] = notices_of(counts, "CALL pgtrickle.refresh_stream_table('counts')")

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

    assert "public.t: triggers made anew" in told
    assert "guard made anew" in told


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
    assert [one["name"] for one in made] == ["public.a", "public.b"]
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


def test_exported_definition_creates_the_same_again(counts: Lab):
    counts.run(
        """CALL pgtrickle.create_stream_table('"It''s"', 'SELECT ''a'' AS "q""x", id FROM t',
        schedule => '3m', refresh_mode => 'FULL', cdc_mode => 'trigger',
        diamond_consistency => 'none')""",
        """CALL pgtrickle.alter_stream_table('"It''s"', tier => 'warm', fuse => 'on',
        fuse_ceiling => 9)""",
    )
    ask = """SELECT pgtrickle.stream_table_spec('public."It''s"')"""
    script, before = (
        counts.value("""SELECT pgtrickle.export_definition('"It''s"')"""),
        counts.value(ask),
    )

    for statement in script.split(";\n"):
        if statement:
            counts.run(statement)
    counts.run("RESET search_path")

    assert counts.value(ask) == before
