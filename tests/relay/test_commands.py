"""``pgtrickle relay`` in the shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from pgtrickle.cli.main import app
from tests.labs.lab import Lab
from tests.relay.shop import open_shop, write_file


def _run(lab: Lab, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["relay", *arguments, "--dsn", lab.trickle.dsn, "--json"])
    assert done.exit_code == code, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_pipelines_are_checked_run_and_shown(postgres_lab: Lab, tmp_path: Path):
    lab = postgres_lab
    open_shop(lab, "keyed")
    lines = tmp_path / "changes.jsonl"
    given = {"stream_table": "keyed", "sink": "file", "options": {"path": str(lines)}}
    config = ("--config", str(write_file(tmp_path / "relay.json", p=given)))

    assert _run(lab, "validate", *config) == {"pipelines": ["p"]}
    assert _run(lab, "test", "p", *config)["guarantee"] == "exactly once"
    [done] = _run(lab, "run", "--once", *config)["pipelines"]
    assert (done["state"], done["lag_entries"]) == ("stopped", 0)
    assert len(lines.read_bytes().splitlines()) == done["messages"]
    assert _run(lab, "list")["pipelines"][0]["sink"] == "file"
    _run(lab, "pause", "p")
    assert _run(lab, "status", "p")["pipelines"][0]["state"] == "paused"
    assert _run(lab, "run", "--once", *config, code=1)["pipelines"][0]["paused"]
    _run(lab, "resume", "p")
    assert _run(lab, "dead-letters", "p") == {"dead_letters": []}
    assert _run(lab, "replay", "p")["replayed"] == 0
    assert _run(lab, "drop", "p") == {"pipeline": "p", "dropped": True}
    assert _run(lab, "pause", "p", code=1)["error"]["code"] == "ST821"
