"""The examples of the README run as they are printed, on real PostgreSQL and Spark."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import psycopg

from tests.pages.blocks import block_of
from tests.pages.reader import programs

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "from pgtrickle.cli.main import app; app()"


def environment(dsn: str, tmp_path: Path) -> dict[str, str]:
    """Return the reader's environment: a database, and the commands on the PATH."""
    command = tmp_path / "pgtrickle"
    command.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} -c '{COMMAND}' \"$@\"\n")
    command.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"], str(programs())])
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PGTRICKLE_DSN": dsn, "PATH": path, "PYTHONPATH": source}


def run(command: list[str], environment: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        command,
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_example_prints_what_its_comments_say(database: str, tmp_path: Path):
    script = tmp_path / "example.py"
    script.write_text(block_of("README.md", "python"))

    printed = run([sys.executable, str(script)], environment(database, tmp_path), tmp_path)

    assert printed.splitlines() == ["DIFFERENTIAL 1 1", "(Decimal('15.00'),)", "True", "2"]


def test_the_shell_example_maintains_its_table(empty_database: str, tmp_path: Path):
    reader = environment(empty_database, tmp_path)
    printed = run(["/bin/sh", "-eu", "-c", block_of("README.md", "sh")], reader, tmp_path)

    assert "public.popular: DIFFERENTIAL +2 -0" in printed
    assert "public.popular: 2 rows, equal to PostgreSQL's own answer" in printed
    with psycopg.connect(empty_database) as connection:
        rows = connection.execute("TABLE popular ORDER BY page").fetchall()
    assert rows == [("/", 2, 9), ("/docs", 1, 40)]
