"""Inboxes by procedures of SQL, which the daemon executes, and by commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from pgtrickle.cli.main import app
from tests.labs.lab import Lab
from tests.security.serving import serving


def test_procedures_make_order_and_drop_an_inbox(postgres_lab: Lab):
    lab = postgres_lab
    with serving(lab):
        made = lab.value("CALL pgtrickle.create_inbox('mail', with_stats => false)")
        assert made == {
            "inbox": "public.mail",
            "stream_tables": ["public.mail_pending", "public.mail_dlq"],
        }
        found = lab.value("CALL pgtrickle.enable_inbox_ordering('mail')")
        assert found == {"stream_table": "public.mail_next"}
        found = lab.value("CALL pgtrickle.enable_inbox_priority('public.mail', urgent_from => 2)")
        assert found == {"stream_table": "public.mail_urgent"}
        for what in ("priority", "ordering"):
            assert lab.value(f"CALL pgtrickle.disable_inbox_{what}('mail')") == {"ended": True}
        dropped = lab.value("CALL pgtrickle.drop_inbox('mail')")
        assert dropped["dropped"][-1] == "public.mail"
        assert lab.value("CALL pgtrickle.drop_inbox('mail', if_exists => true)") == {"dropped": []}


@pytest.fixture
def command(postgres_lab: Lab) -> Callable[..., Any]:
    dsn = postgres_lab.trickle.dsn

    def run(*arguments: str, code: int = 0) -> Any:
        line = ["inbox", *arguments, "--dsn", dsn, "--json"]
        result = CliRunner().invoke(app, line)
        assert result.exit_code == code, result.output
        told = CliRunner().invoke(app, line[:-1]) if arguments[0] in _LOOKS else None
        assert told is None or told.exit_code == code
        return json.loads(result.stdout)

    return run


_LOOKS = {"status", "health", "gaps"}


def test_commands_do_the_same(postgres_lab: Lab, command: Callable[..., Any]):
    made = command("create", "mail", "--no-stats", "--max-retries", "1")
    assert made["stream_tables"] == ["public.mail_pending", "public.mail_dlq"]
    postgres_lab.run(
        "INSERT INTO mail (event_id, aggregate_id, sequence_num, retry_count) VALUES"
        " ('a', 'x', 1, 1), ('b', 'x', 5, 0)"
    )
    assert command("enable-ordering", "mail")["stream_table"] == "public.mail_next"
    assert command("enable-priority", "mail")["stream_table"] == "public.mail_urgent"
    [status] = command("status")["inboxes"]
    assert (status["pending"], status["dead_letters"]) == (1, 1)
    assert command("gaps", "mail")["gaps"][0]["aggregate"] == "x"
    assert command("replay", "mail", "--message", "a")["replayed"] == 1
    assert {one["severity"] for one in command("health", "mail")["checks"]} == {"OK"}
    assert command("disable-priority", "mail")["ended"]
    assert command("disable-ordering", "mail")["ended"]
    postgres_lab.run("ALTER TABLE mail DROP COLUMN error")
    assert len(command("health", code=1)["checks"]) == 5
    assert command("drop", "mail")["dropped"][-1] == "public.mail"
    assert command("status")["inboxes"] == []
