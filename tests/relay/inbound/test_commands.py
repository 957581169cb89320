"""Inbound pipelines by commands: a file is checked, run, looked at, and its metrics are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pgtrickle.cli.main import app
from pgtrickle.cli.outboxes.inbound_metrics import METRICS
from tests.labs.lab import Lab
from tests.relay.inbound.brokers import held, numbered, redis


@pytest.fixture
def command(postgres_lab: Lab) -> Callable[..., Any]:
    def run(*arguments: str, code: int = 0) -> Any:
        line = ["inbound", *arguments, "--dsn", postgres_lab.trickle.dsn]
        for form in ([*line, "--json"], line):
            result = CliRunner().invoke(app, form)
            assert result.exit_code == code, result.output
            if "--json" in form:
                told = json.loads(result.stdout)
        return told

    return run


def test_a_file_of_pipelines(postgres_lab: Lab, tmp_path: Path, command: Callable[..., Any]):
    lab, file = postgres_lab, tmp_path / "inbound.json"
    lab.trickle.inbox.create_inbox("mail", with_stats=False, with_dead_letter=False)
    with redis(tmp_path) as broker:
        given = {"inbox": "mail", "origin": "redis", "options": broker.options}
        file.write_text(json.dumps({"inbound": {"p": given}}))
        broker.send([*numbered(1, 2, 1), ("bad", "hello")])

        assert command("validate", "--config", str(file))["pipelines"] == ["p"]
        assert command("test", "p", "--config", str(file))["reached"]
        command("run", "--once", "--config", str(file))
        assert held(lab) == [1, 2]
        [status] = command("status")["pipelines"]
        assert (status["messages"], status["duplicates"], status["dead_letters"]) == (2, 1, 1)
        assert command("list")["pipelines"][0]["origin"] == "redis"
        [letter] = command("dead-letters", "p")["dead_letters"]
        assert letter["value"] == "\\x" + b"hello".hex()
        assert command("replay", "p")["replayed"] == 1
        assert command("pause", "p")["paused"]
        command("run", "--once", "--config", str(file), code=1)
        assert command("resume", "p")["resumed"]
        page = METRICS.write_page(lab.trickle.inbound.inbound_status(), "shop").decode()
        assert 'pgtrickle_inbound_messages_total{database="shop",pipeline="p"} 2.0' in page
        assert command("drop", "p", "--if-exists")["dropped"]
        assert command("status")["pipelines"] == []
    file.write_text("{}")
    assert command("validate", "--config", str(file), code=1)["error"]["code"] == "ST820"
