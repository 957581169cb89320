"""The walkthroughs of docs/backup-and-restore.md, line by line, each on a server of its own."""

from __future__ import annotations

import re
import shlex
from datetime import datetime

import psycopg
import pytest

from pgtrickle import Trickle, connect
from pgtrickle.cli.setup import Setup
from tests.cli.conftest import CommandLine
from tests.cli.walkthroughs import DOCS, Step, read_steps
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.restartable import OwnServer

_BEGINNING, *_OTHERS = re.split(
    r"^## (.*)\n", (DOCS / "backup-and-restore.md").read_text(), flags=re.MULTILINE
)
SECTIONS = {
    title: text for title, text in zip(_OTHERS[::2], _OTHERS[1::2], strict=True) if "```" in text
}
_MOMENT = "2026-01-31 12:00:00+00"  # on the page
_ACCIDENT = 'psql -c "DELETE FROM orders"'
_FILES = "/srv"


class Machine:
    """A shell on the machine of the server, where the page says to be."""

    def __init__(self, server: OwnServer, cli: CommandLine) -> None:
        self._server = server
        self._cli = cli
        self._moment = ""

    def run(self, step: Step) -> None:
        """Run one step."""
        if step.command.startswith("pgtrickle "):
            lines = (self._placed(one) for one in (step.command, *step.expected))
            step = Step(next(lines), tuple(lines))
            answer = self._cli(*shlex.split(step.command)[1:])
            assert answer.exit_code == 0, (step, answer)
            if step.expected:
                step.check(answer.stdout)
            return
        if step.command == _ACCIDENT:
            self._moment = self._now()
        command = step.command.replace(_MOMENT, self._moment)
        self._server.run_shell(self._placed(command), "shop")

    def _placed(self, text: str) -> str:
        return text.replace(_FILES, str(self._server.directory))

    def _now(self) -> str:
        with psycopg.connect("") as connection:
            [(now,)] = connection.execute("SELECT clock_timestamp()").fetchall()
        assert isinstance(now, datetime)
        return now.isoformat(" ")


@pytest.fixture
def machine(
    own_server: OwnServer, duckdb_engine: DuckDbEngine, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    own_server.keep_settings()
    for name, value in own_server.variables("shop").items():
        monkeypatch.setenv(name, value)

    def open_database(dsn: str | None, *, init: bool | None = None) -> Trickle:
        return connect(dsn, engine=Borrowed(duckdb_engine), init=init)

    return Machine(own_server, CommandLine("dbname=shop", Setup(connect=open_database)))


@pytest.mark.parametrize("section", SECTIONS)
def test_walkthrough_prints_what_the_page_says(machine: Machine, section: str) -> None:
    steps = read_steps(_BEGINNING) + read_steps(SECTIONS[section])
    assert len(steps) >= 12

    for step in steps:
        machine.run(step)
