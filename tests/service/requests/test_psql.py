"""What a person reads in psql: short errors, what to do in a block, text without padding."""

from __future__ import annotations

import pytest

from tests.fixtures.psql import psql
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"
CREATE = f"CALL pgtrickle.create_stream_table('counts', '{COUNTS}', schedule => '5m');"
REFRESH = "CALL pgtrickle.refresh_stream_table('counts');"
LIST_PROCEDURES = """
    SELECT format('CALL pgtrickle.%I(%s);', p.proname, string_agg(
               CASE t.typname WHEN 'text' THEN '''nothing''' WHEN '_text' THEN '''{nothing}'''
                              WHEN 'jsonb' THEN '''{"nothing": 1}''' ELSE 'NULL' END, ', '
               ORDER BY a.place))
      FROM pg_proc AS p, unnest(p.proargtypes) WITH ORDINALITY AS a (type, place)
      JOIN pg_type AS t ON t.oid = a.type
     WHERE p.pronamespace = 'pgtrickle'::regnamespace AND p.prokind = 'p'
       AND p.proname NOT IN ('find_transaction_block', 'find_obstacle', 'await_request', 'drain',
                             'quiesce')
     GROUP BY p.oid ORDER BY p.proname
"""


@pytest.fixture
def counts(served: Lab) -> Lab:
    served.run(*T, CREATE)
    return served


def test_an_error_has_one_line_of_context(counts: Lab):
    said = psql(counts.trickle.dsn, CREATE)

    assert said.code == "ST202"
    assert [line.split("(")[0] for line in said.context] == [
        "PL/pgSQL function pgtrickle.create_stream_table"
    ]


def test_every_procedure_raises_its_errors_itself(counts: Lab):
    calls = [call for (call,) in counts.rows(LIST_PROCEDURES)]

    said = {call: psql(counts.trickle.dsn, call) for call in calls}

    assert {call: one.context for call, one in said.items() if len(one.context) > 1} == {}
    assert sum(one.code is not None for one in said.values()) > 20


def test_without_a_daemon_an_error_says_so_in_one_line(lab: Lab):
    said = psql(lab.trickle.dsn, REFRESH)

    assert (said.code, len(said.context)) == ("ST601", 1)


@pytest.mark.parametrize(
    "commands",
    [
        ("BEGIN;", REFRESH),
        ("BEGIN;", "SELECT 1;", REFRESH),
        ("BEGIN;", "INSERT INTO t VALUES (3, 3);", REFRESH),
        (rf"SELECT 1\; {REFRESH}",),
        ("BEGIN;", "CALL pgtrickle.write_and_refresh('INSERT INTO t VALUES (3, 3)', 'counts');"),
        ("BEGIN;", "CALL pgtrickle.drain(0);"),
    ],
    ids=["begun", "has read", "has written", "two statements", "write and refresh", "drain"],
)
def test_call_in_a_transaction_block_says_what_to_do(counts: Lab, commands: tuple[str, ...]):
    said = psql(counts.trickle.dsn, *commands)

    assert (said.code, len(said.context)) == ("ST605", 1)
    assert "HINT:  COMMIT" in said.err
    assert counts.rows("SELECT count(*) FROM t") == [(2,)]
    assert not counts.value("SELECT pgtrickle.is_drained()")


def test_call_in_an_anonymous_block_may_wait(counts: Lab):
    """It may commit there, unless the block is in a transaction block itself or has written."""
    call = "CALL pgtrickle.refresh_stream_table('counts', false, result);"
    anonymous = "DO $$ DECLARE result jsonb; BEGIN {} END $$;"
    committed = "INSERT INTO t VALUES (3, 3); COMMIT; " + call

    assert psql(counts.trickle.dsn, anonymous.format(committed)).code is None
    assert psql(counts.trickle.dsn, "BEGIN;", anonymous.format(call)).code == "ST605"
    written = "INSERT INTO t VALUES (4, 4); " + call
    assert psql(counts.trickle.dsn, anonymous.format(written)).code == "ST605"
    assert counts.rows("SELECT k FROM counts") == [(1,), (3,)]


def test_explanation_is_printed_as_it_is(counts: Lab):
    said = psql(counts.trickle.dsn, "CALL pgtrickle.explain('counts');")
    lines = said.err.splitlines()

    assert lines[0].endswith("stream table public.counts")
    assert "stage group_1:" in lines
    assert all(line == line.rstrip() and not line.endswith("+") for line in lines)
    assert said.out == "CALL\n"


def description(lab: Lab) -> str:
    """Return what the list of tables says about the stream table."""
    [line] = [line for line in psql(lab.trickle.dsn, r"\d+").out.splitlines() if "| counts" in line]
    return line.split("|")[-1].strip()


def test_list_of_tables_names_schedule_and_query(counts: Lab):
    assert description(counts) == f"pgtrickle stream table, schedule 5m, query: {COUNTS}"


def test_comment_follows_schedule_and_query(counts: Lab):
    counts.trickle.alter_stream_table("counts", schedule="10m")
    assert description(counts) == f"pgtrickle stream table, schedule 10m, query: {COUNTS}"

    other = "SELECT k,\n       sum(id) AS n\n  FROM t GROUP BY k"
    counts.trickle.alter_stream_table("counts", query=other)
    shown = "SELECT k, sum(id) AS n FROM t GROUP BY k"
    assert description(counts) == f"pgtrickle stream table, schedule 10m, query: {shown}"


def test_comment_follows_a_source_that_is_renamed(counts: Lab):
    counts.run("ALTER TABLE t RENAME TO sales", "INSERT INTO sales VALUES (3, 3)")

    counts.trickle.refresh_stream_table("counts")

    assert "FROM public.sales" in description(counts)


def test_comment_that_somebody_wrote_stays(counts: Lab):
    counts.run("COMMENT ON TABLE counts IS 'ask Ann'")

    counts.trickle.alter_stream_table("counts", schedule="10m", query=f"{COUNTS} HAVING k > 0")

    assert description(counts) == "ask Ann"


def test_comment_that_was_taken_away_comes_back_with_the_next_change(counts: Lab):
    counts.run("COMMENT ON TABLE counts IS NULL")

    counts.trickle.alter_stream_table("counts", schedule="10m")

    assert description(counts).startswith("pgtrickle stream table, schedule 10m")


def test_long_query_is_cut_in_the_comment(served: Lab):
    served.run(*T)
    served.create("counts", f"SELECT k, '{'x' * 2000}' AS x FROM t")

    assert description(served).endswith("...")
    assert len(description(served)) < 1100
