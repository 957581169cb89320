"""docs/sql_reference.md: every example runs, and every function that a user may call has one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrickle.lake.format.catalog import create_catalog
from pgtrickle.lake.format.columns import number_columns
from pgtrickle.lake.format.types import lake_type
from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.model.sql_type import BIGINT, TEXT
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.shadows.run import follow_due
from tests.labs.lab import Lab
from tools.sql_examples import EXAMPLES, PREPARATION
from tools.sql_surface import read_routines, read_views

# Parts of what users call, and nothing for themselves.
INNER = {
    "refusal_of_commit",
    "find_transaction_block",
    "find_obstacle",
    "await_request",
    "follow_request",
    "may_act_on",
    "check_may_act_on",
    "check_may_ask",
    "check_may_group",
    "diff_tables",
    "find_compared",
    *("find_snapshot", "find_service_level", "write_service_level"),
    *("describe_outbox", "seal_outbox", "write_outbox"),
    "list_identities",
    *("console_advice", "console_requests", "console_tables"),
    *("describe_database", "describe_definition", "describe_grants", "describe_placeholder"),
    *("describe_scheduling", "describe_table", "describe_view", "is_paused", "list_access"),
    *("list_definitions", "list_table_objects", "quote_name", "write_block", "write_definition"),
    *("write_definition_calls", "write_dump", "write_object", "write_removal", "write_scheduling"),
    *(
        "check_outbox",
        "find_inbox",
        "first_outbox_id",
        "inbox_trouble",
        "lies_here",
        "list_changes",
        "list_followable",
        "present_name",
        "resolve_path",
        "write_suspension",
        "write_table",
    ),
}
# What these have to say comes as messages.
MESSAGES = {"explain"}
OWNERS = {
    *("grant_access", "revoke_access", "set_setting", "migrate"),
    *("drain", "undrain", "quiesce", "resume_all"),
    *("create_relay_pipeline", "drop_relay_pipeline", "pause_relay", "resume_relay"),
    *("relay_dead_letters", "replay_dead_letters"),
    *("create_inbound_pipeline", "drop_inbound_pipeline", "pause_inbound", "resume_inbound"),
    *("inbound_dead_letters", "replay_inbound_dead_letters"),
}
# What has to happen before an example.
BEFORE = {
    "poll_outbox": "CALL pgtrickle.write_and_refresh('UPDATE orders SET amount = amount + 1',"
    " 'revenue')",
    "view_evolution_status": "CALL pgtrickle.alter_stream_table('revenue',"
    " 'SELECT region, sum(amount) + 1 AS total FROM orders GROUP BY region',"
    " shadow_build => true, hold => true)",
    "cancel_shadow": "CALL pgtrickle.alter_stream_table('revenue',"
    " 'SELECT region, sum(amount) + 2 AS total FROM orders GROUP BY region',"
    " shadow_build => true, hold => true)",
    "show_as_of": "CALL pgtrickle.alter_stream_table('revenue', sink => 'ducklake')",
    "reset_fuse": "UPDATE pgtrickle.pgt_stream_tables SET fuse_blown_at = now(),"
    " fuse_reason = 'too much' WHERE pgt_name = 'revenue'",
}


@pytest.fixture
def reporting(served: Lab, tmp_path: Path) -> Iterator[Lab]:
    served.run("CREATE ROLE reporting")
    with served.connection.transaction():
        commit = begin_commit(
            served.connection, create_catalog(served.connection, "lake", str(tmp_path))
        )
        columns = number_columns([("id", lake_type(BIGINT)), ("page", lake_type(TEXT))])
        visits = QualifiedName("main", "visits")
        commit.create_table(0, visits, columns, "visits/", relative=True)
        commit.finish(author="test", message="create")
    yield served
    served.run(
        "SELECT pgtrickle.set_setting('lease_seconds', NULL)",
        "DROP OWNED BY reporting",
        "DROP ROLE reporting",
    )


def test_every_example_runs(reporting: Lab):
    reporting.run(*PREPARATION.split(";\n")[:-1])
    for examples in EXAMPLES.values():
        for name, example in examples.items():
            if name in BEFORE:
                reporting.run(BEFORE[name])
            if name == "compare_shadow":  # a daemon does it by itself
                follow_due(reporting.trickle._runtime)
            cursor = reporting.connection.execute(example.encode())
            assert (cursor.description is None) == (name in MESSAGES), name
            assert name in MESSAGES or cursor.fetchall() is not None

    assert reporting.rows("SELECT name FROM pgtrickle.pgt_status()") == []


def test_every_function_that_someone_may_call_has_an_example(lab: Lab):
    granted = lab.rows(
        "SELECT DISTINCT proname FROM pgtrickle.pgt_grants AS g JOIN pg_proc AS p ON"
        " g.target IN ('FUNCTION ' || p.oid::regprocedure, 'PROCEDURE ' || p.oid::regprocedure)"
    )
    shown = {name for examples in EXAMPLES.values() for name in examples}

    assert shown == ({name for (name,) in granted} - INNER) | OWNERS


def test_the_page_shows_what_the_database_has(lab: Lab):
    """The text of the files is read by patterns: compare with what PostgreSQL made of it."""
    routines = read_routines()
    for examples in EXAMPLES.values():
        for name in examples:
            kind = "p" if routines[name].kind == "procedure" else "f"
            [(names, comment)] = lab.rows(
                "SELECT proargnames[1:pronargs], obj_description(oid, 'pg_proc') FROM pg_proc"
                f" WHERE pronamespace = 'pgtrickle'::regnamespace AND proname = '{name}'"
                f" AND prokind = '{kind}'"
            )
            given = [
                one.removeprefix("OUT ").split()[0].strip('"') for one in routines[name].arguments
            ]
            assert given == (names or []), name
            assert routines[name].meaning == " ".join(comment.split()), name
    assert all(read_views().values())
