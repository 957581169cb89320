"""A database is upgraded while a daemon of the old version works and writers write.

Both versions are installed from wheels, side by side, each in an environment of its own.  The new
one is this tree with a later version number and one migration more.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgtrickle.model.version import VERSION
from tests.catalog.databases import value
from tests.catalog.versions import LATER, NEXT
from tests.fixtures.daemons import await_
from tools.wheels import build_wheel

ROOT = Path(__file__).parents[2]
COMMANDS = re.findall(
    r"^new/bin/pgtrickle (\S.*?) +#", (ROOT / "docs" / "upgrading.md").read_text(), re.MULTILINE
)
NEWER = "99.0.0"
_LONGEST_GAP = 60.0  # seconds: far more than it takes, for machines that have much to do
_SOURCES = """
    CREATE TABLE orders (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, region int, amount int);
    INSERT INTO orders (region, amount) SELECT i % 5, i FROM generate_series(1, 100) AS i;
"""
STREAM_TABLES = {
    "revenue": "SELECT region, sum(amount) AS total, count(*) AS n FROM orders GROUP BY region",
    "best": "SELECT max(total) AS total, sum(n) AS n FROM revenue",
}
AT_ONCE = "SELECT region, count(*) AS n FROM orders GROUP BY region"
_HEADER = (
    "-- {number:04d} · later\n--\n-- Why:   a test.\n-- Reads: nothing.\n-- Locks: pgt_daemons.\n"
)
_REFRESHES = """
    SELECT count(*) FROM pgtrickle.pgt_refresh_history AS h
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE s.pgt_name = 'revenue' AND h.status = 'COMPLETED'
"""
# Of refreshes in flight: the lease was taken, or the daemon that stepped down cancelled them.
_OTHER_FAILURES = """
    SELECT count(*) FROM pgtrickle.pgt_refresh_history
     WHERE status = 'FAILED' AND error_code NOT IN ('ST210', 'ST214')
"""


@dataclass(frozen=True)
class Installed:
    """One version of pgtrickle, installed from its wheel."""

    program: Path
    dsn: str

    @property
    def environment(self) -> dict[str, str]:
        apart = {"PGTRICKLE_DSN": self.dsn, "PGTRICKLE_ENGINE": "postgres", "PYTHONPATH": ""}
        return os.environ | apart

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        """Run a command; return the document that it prints."""
        command = [str(self.program), *arguments, "--json"]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    @contextmanager
    def daemon(self, log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Run the daemon for the length of a block."""
        with log.open("w") as lines:
            command = [str(self.program), "run"]
            process = subprocess.Popen(command, env=self.environment, stdout=lines, stderr=lines)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def install(source: Path, home: Path, dsn: str) -> Installed:
    """Build the wheel of a tree and install it, beside the packages that the tests run with."""
    wheel = build_wheel(source, home / "wheel")
    venv.create(home)
    own = sysconfig.get_path("purelib", vars={"base": str(home)})
    others = sysconfig.get_path("purelib")
    (Path(own) / "others.pth").write_text(f"{others}\n")
    command = [sys.executable, "-m", "pip", "--python", str(home / "bin" / "python"), "install"]
    alone = ["--no-deps", "--no-index", "--ignore-installed", "--quiet", str(wheel)]
    subprocess.run([*command, *alone], check=True, capture_output=True)
    return Installed(home / "bin" / "pgtrickle", dsn)


def copy_as_newer(target: Path) -> Path:
    """Copy this tree, with a later version and a migration more."""
    target.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, target)
    shutil.copytree(
        ROOT / "src", target / "src", ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
    )
    stated = target / "src" / "pgtrickle" / "model" / "version.py"
    stated.write_text(stated.read_text().replace(f'"{VERSION}"', f'"{NEWER}"'))
    migrations = target / "src" / "pgtrickle" / "catalog" / "migrations"
    text = f"{_HEADER.format(number=NEXT)}-- Undo:  none.\n\n{LATER}\n"
    (migrations / f"{NEXT:04d}_later.sql").write_text(text)
    return target


@dataclass
class Watched:
    """Writers that write, and an observer who notes when the stream tables last moved."""

    dsn: str
    errors: list[Exception] = field(default_factory=list)
    written: int = 0
    longest_gap: float = 0.0
    _done: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [threading.Thread(target=one) for one in (self._write, self._write, self._watch)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._done.set()
            for thread in threads:
                thread.join()

    def _write(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self._done.wait(0.02):
                try:
                    with connection.transaction():
                        connection.execute("INSERT INTO orders (region, amount) VALUES (3, 7)")
                        connection.execute("UPDATE orders SET amount = amount + 1 WHERE id = 5")
                    self.written += 1
                except psycopg.Error as error:
                    self.errors.append(error)

    def _watch(self) -> None:
        last, moved = None, time.monotonic()
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while not self._done.wait(0.1):
                found = value(connection, "SELECT n FROM best")
                if found != last:
                    last, moved = found, time.monotonic()
                self.longest_gap = max(self.longest_gap, time.monotonic() - moved)


@pytest.mark.timeout(600)
def test_new_version_takes_over_while_the_old_one_works(empty_database: str, tmp_path: Path):
    old = install(ROOT, tmp_path / "old", empty_database)
    new = install(copy_as_newer(tmp_path / "source"), tmp_path / "new", empty_database)
    watched = Watched(empty_database)
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(_SOURCES.encode())
        old("init")
        for name, query in STREAM_TABLES.items():
            old("create", name, "--query", query, "--schedule", "1s")
        old("create", "at_once", "--query", AT_ONCE, "--refresh-mode", "IMMEDIATE")
        assert old("version")["pgtrickle"] == VERSION
        assert new("list", code=1)["error"]["code"] == "ST216"

        def refreshes() -> int:
            return int(value(connection, _REFRESHES))

        with watched.at_work(), old.daemon(tmp_path / "old.log") as leaving:
            begun = refreshes()
            await_(lambda: refreshes() > begun + 2)
            assert COMMANDS == ["migrate --dry-run", "migrate", "run", "version"]  # as below
            plan = new("migrate", "--dry-run")
            assert (plan["rehearsed"], len(plan["steps"])) == (True, 2)
            applied = new("migrate")["applied"]
            with new.daemon(tmp_path / "new.log"):
                assert leaving.wait(timeout=60) == 1
                since = refreshes()
                await_(lambda: refreshes() > since + 2)
                seen = new("version")["database"]

        told = (tmp_path / "old.log").read_text()
        assert applied == [f"{NEXT:04d} later"]
        assert told.count("error ST204: ") == 1
        assert f"the catalog has version {NEXT}, this package knows {NEXT - 1}" in told
        assert (seen["catalog"], seen["migrated_by"], seen["daemon"]) == (NEXT, NEWER, NEWER)
        assert old("list", code=1)["error"]["code"] == "ST204"
        assert (watched.errors, watched.written > 100) == ([], True)
        assert watched.longest_gap < _LONGEST_GAP
        assert value(connection, _OTHER_FAILURES) == 0
        for name in (*STREAM_TABLES, "at_once"):
            new("refresh", name)
            assert new("verify", name)["ok"] is True
        print(f"written {watched.written}, longest gap {watched.longest_gap:.1f} s")
