"""``pgtrickle top`` as a command: in a real terminal, as JSON, and where it cannot run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from pgtrickle import Trickle
from tests.labs.lab import Lab

_COLOURED = re.compile(r"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7]|10[0-7])\b[0-9;]*m")


def top(dsn: str, *arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgtrickle", "top", "--dsn", dsn, *arguments]
    environment = {**os.environ, "PGTRICKLE_ENGINE": "postgres", **options}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_json_is_the_picture(scene: Trickle) -> None:
    document = json.loads(top(scene.dsn, "revenue", "--json").stdout)

    assert set(document) == set(scene.insight.picture(name="revenue").document())
    assert [one["name"] for one in document["definition"]] == ["public.revenue"]
    assert len(document["tables"]) == 8


def test_without_a_terminal_it_says_what_to_do(scene: Trickle) -> None:
    ended = top(scene.dsn)

    assert ended.returncode == 1
    assert "top needs a terminal" in ended.stderr
    assert "pgtrickle top --json" in ended.stderr


@dataclass
class Terminal:
    """A real terminal, by tmux, which belongs to this test alone."""

    name: str

    def run(self, *arguments: str) -> str:
        command = ["tmux", "-L", self.name, "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def keys(self, *keys: str) -> None:
        self.run("send-keys", "-t", "top", *keys)

    def see(self, wanted: Callable[[str], bool], *options: str) -> str:
        end = time.monotonic() + 60
        while not wanted(shown := self.run("capture-pane", "-p", "-t", "top", *options)):
            assert time.monotonic() < end, shown
            time.sleep(0.1)
        return shown


@pytest.fixture(params=["", "NO_COLOR=1"], ids=["colours", "none"])
def terminal(postgres_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    postgres_lab.run("CREATE TABLE t AS SELECT 1 AS id")
    postgres_lab.create("ids", "SELECT id FROM t")
    made = Terminal(f"pgtrickle-{uuid.uuid4().hex[:8]}")
    environment = f"LC_ALL=C.UTF-8 PGTRICKLE_ENGINE=postgres {request.param}"
    command = f"{sys.executable} -m pgtrickle top --dsn '{postgres_lab.trickle.dsn}'"
    made.run(
        *("-u", "new-session", "-d", "-s", "top", "-x", "80", "-y", "24"),
        f"env {environment} {command}; echo ended with $?; sleep 60",
    )
    yield made
    made.run("kill-server")


def test_it_runs_in_a_terminal_and_leaves_it_as_it_was(
    terminal: Terminal, postgres_lab: Lab, request: pytest.FixtureRequest
) -> None:
    shown = terminal.see(lambda text: "public.ids" in text and "full" in text, "-e")
    coloured = bool(_COLOURED.search(shown))
    assert coloured == ("colours" in request.node.name)
    terminal.keys("r")
    terminal.see(lambda text: "Refresh public.ids now?" in text)
    terminal.keys("y")
    terminal.see(lambda text: "public.ids: NO_DATA" in text)
    terminal.keys("2")
    terminal.see(lambda text: "└─ public.t" in text)
    terminal.keys("q")
    shown = terminal.see(lambda text: "ended with" in text)

    assert "ended with 0" in shown
    assert "Traceback" not in shown
