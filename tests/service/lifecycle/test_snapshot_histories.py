"""Random histories of writes, refreshes, snapshots and restores: right after every step.

``PGTRICKLE_SNAPSHOT_HISTORIES`` says how many there are for each engine.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import psycopg
import pytest

from tests.labs.lab import Lab, Row
from tests.seeds import seed_of

_HISTORIES = int(os.environ.get("PGTRICKLE_SNAPSHOT_HISTORIES", "4"))
_SEED = seed_of("PGTRICKLE_SNAPSHOT_SEED", 7)
_STEPS = 25
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v int)",
    "CREATE TABLE names (k int, name text)",
    "INSERT INTO t SELECT i, i % 4, i % 7 FROM generate_series(1, 20) AS i",
    "INSERT INTO names SELECT i, 'n' || i FROM generate_series(0, 3) AS i",
)
QUERIES = (
    "SELECT k, count(*) AS n, sum(v) AS total, min(v) AS least FROM t GROUP BY k",
    "SELECT n.name, t.v FROM t LEFT JOIN names AS n ON n.k = t.k WHERE t.v > 1",
    "SELECT n.name, count(DISTINCT t.v) AS kinds FROM t JOIN names AS n ON n.k = t.k"
    " GROUP BY n.name",
    "SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY v, id) AS place FROM t",
    "SELECT k FROM t EXCEPT SELECT k FROM names",
)


@dataclass
class History:
    """One stream table, its snapshots, and what each of them has to bring back."""

    lab: Lab
    draw: random.Random
    writer: psycopg.Connection  # whose transactions span refreshes
    saved: dict[str, list[Row]] = field(default_factory=dict)
    reinitializes: bool = False  # the next refresh, as the list of snapshots has said
    next_id: int = 100

    def write(self) -> None:
        """Change both sources."""
        number = self.draw.randrange(20)
        self.lab.run(
            self.draw.choice(
                [
                    f"UPDATE t SET v = (v + {number}) % 9 WHERE id % 5 = {number % 5}",
                    f"UPDATE t SET k = (k + 1) % 5 WHERE id % 7 = {number % 7}",
                    f"DELETE FROM t WHERE id % 11 = {number % 11}",
                    f"UPDATE names SET name = 'm{number}' WHERE k = {number % 4}",
                    f"DELETE FROM names WHERE k = {number % 4}",
                    f"INSERT INTO names VALUES ({number % 5}, 'x')",
                ]
            ),
            self._insert(),
        )

    def _insert(self) -> str:
        self.next_id += 1
        return f"INSERT INTO t VALUES ({self.next_id}, {self.next_id % 5}, {self.next_id % 8})"

    def write_slowly(self) -> None:
        """Begin a transaction, or end one that began some steps ago."""
        if self.writer.info.transaction_status.name == "IDLE":
            self.writer.execute(self._insert().encode())
        else:
            self.draw.choice([self.writer.commit, self.writer.rollback])()

    def refresh(self) -> None:
        """Refresh, which reinitializes if and only if that was announced."""
        report = self.lab.trickle.refresh_stream_table("one")
        assert (report.action.value == "REINITIALIZE") == self.reinitializes, report.reason
        self.reinitializes = False
        self.lab.check("one")

    def refresh_the_other(self) -> None:
        """Let the other consumer of the buffers read them, too."""
        assert self.lab.trickle.refresh_stream_table("other").action.value != "REINITIALIZE"
        self.lab.check("other")

    def take(self) -> None:
        """Take a snapshot of whatever the stream table holds."""
        taken = str(self.lab.trickle.snapshots.snapshot_stream_table("one"))
        self.saved[taken] = self.lab.rows("TABLE one")
        assert self.saved[taken] == self.lab.rows(f"TABLE {taken}")

    def restore(self) -> None:
        """Restore any of the snapshots."""
        if not self.saved:
            return
        chosen = self.draw.choice(sorted(self.saved))
        [listed] = [
            one for one in self.lab.trickle.snapshots.list_snapshots() if str(one.table) == chosen
        ]
        self.lab.trickle.snapshots.restore_from_snapshot("one", chosen)
        assert self.lab.rows("TABLE one") == self.saved[chosen]
        self.reinitializes = listed.gap is not None or self.lab.value(
            "SELECT needs_reinit FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'one'"
        )

    def drop(self) -> None:
        """Drop any of the snapshots."""
        if self.saved:
            chosen = self.draw.choice(sorted(self.saved))
            self.lab.trickle.snapshots.drop_snapshot(chosen)
            del self.saved[chosen]

    def switch(self) -> None:
        """Let snapshots hold the buffers back from now on, or no longer."""
        runtime = self.lab.trickle._runtime
        runtime.settings = replace(
            runtime.settings, snapshot_keeps_changes=not runtime.settings.snapshot_keeps_changes
        )


@pytest.fixture
def writer_of() -> Iterator[Callable[[Lab], psycopg.Connection]]:
    """Open sessions whose transactions end with the test."""
    opened: list[psycopg.Connection] = []

    def connect(lab: Lab) -> psycopg.Connection:
        opened.append(psycopg.connect(lab.trickle.dsn))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


@pytest.mark.parametrize("engine", ["lab", "postgres_lab"])
@pytest.mark.parametrize("number", range(_HISTORIES))
def test_random_history(
    request: pytest.FixtureRequest,
    writer_of: Callable[[Lab], psycopg.Connection],
    engine: str,
    number: int,
) -> None:
    lab: Lab = request.getfixturevalue(engine)
    seed = f"{_SEED} {engine} {number}"
    print(f"seed {seed}")
    draw = random.Random(seed)
    runtime = lab.trickle._runtime
    before = runtime.settings
    runtime.settings = replace(before, compact_threshold=1)
    try:
        lab.run(*TABLES)
        lab.create("one", draw.choice(QUERIES))
        lab.create("other", QUERIES[0])
        history = History(lab, draw, writer_of(lab))
        acts: list[Callable[[], None]] = [history.write] * 4 + [history.refresh] * 3
        acts += [history.take] * 2 + [history.restore] * 3
        acts += [history.refresh_the_other, history.write_slowly, history.drop, history.switch]
        for _ in range(_STEPS):
            act = draw.choice(acts)
            print(act.__name__)
            act()
        history.writer.commit()
        history.refresh()
        history.refresh_the_other()
    finally:
        runtime.settings = before
