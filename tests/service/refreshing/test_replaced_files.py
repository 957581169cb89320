"""TRUNCATE and rewrites that commit between the snapshot of a refresh and its reads.

They replace files without regard to snapshots, so that the table looks empty to an older one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from pgtrickle.errors import ServerBusyError
from pgtrickle.service.refreshing import findings, run
from tests.labs.lab import Lab

TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, k int)",
    "INSERT INTO t SELECT i, i % 3 FROM generate_series(1, 9) AS i",
    "CREATE TABLE d (k int PRIMARY KEY, name text)",
    "INSERT INTO d SELECT i, 'n' || i FROM generate_series(0, 5) AS i",
)
JOINED = "SELECT d.name, count(*) AS n FROM t JOIN d USING (k) GROUP BY d.name"

Interrupt = Callable[..., None]


@pytest.fixture
def between(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """Let something happen when the next refresh has its snapshot and has read no source yet.

    Before ``gather_facts`` it has not looked at the buffers either.
    """
    steps = {"decide": run, "gather_facts": findings}

    def interrupt(act: Callable[[], object], times: int = 1, before: str = "decide") -> None:
        original = getattr(steps[before], before)
        left = [act] * times

        def first_act(*arguments: Any, **named: Any) -> Any:
            if left:
                left.pop()()
            return original(*arguments, **named)

        monkeypatch.setattr(steps[before], before, first_act)

    lab.run(*TABLES)
    lab.create("joined", JOINED)
    return interrupt


def elsewhere(lab: Lab, *statements: str) -> Callable[[], None]:
    def act() -> None:
        with psycopg.connect(lab.trickle.dsn, autocommit=True) as other:
            other.execute("SET lock_timeout = '5s'")
            for statement in statements:
                other.execute(statement.encode())

    return act


@pytest.mark.parametrize(
    "statements",
    [
        ("TRUNCATE d", "INSERT INTO d VALUES (1, 'new'), (2, 'newer')"),
        ("TRUNCATE t",),
        ("ALTER TABLE d ALTER COLUMN k TYPE bigint",),
        ("ALTER TABLE t ALTER COLUMN k TYPE int USING 5 - k",),
    ],
)
@pytest.mark.parametrize("write", ["INSERT INTO t VALUES (10, 1)", "UPDATE d SET name = 'x' || k"])
def test_p14_refresh_starts_again_from_a_later_snapshot(
    lab: Lab, between: Interrupt, statements: tuple[str, ...], write: str
):
    between(elsewhere(lab, *statements))
    lab.run(write)

    lab.trickle.refresh_stream_table("joined")

    lab.check("joined")
    lab.window("INSERT INTO t VALUES (11, 1)")


def test_first_load_does_not_miss_a_truncated_and_refilled_table(lab: Lab, between: Interrupt):
    between(elsewhere(lab, "TRUNCATE t", "INSERT INTO t VALUES (1, 1)"))

    lab.create("copy", "SELECT id, k FROM t")


@pytest.mark.parametrize("write", ["INSERT INTO t VALUES (10, 1)", "SELECT 1"])
def test_buffer_that_is_stored_anew_loses_nothing(lab: Lab, between: Interrupt, write: str):
    lab.run(write)
    between(lambda: lab.trickle.capture.set_buffer_durability("unlogged"), before="gather_facts")

    lab.trickle.refresh_stream_table("joined")

    lab.check("joined")
    lab.trickle.capture.set_buffer_durability("logged")


def test_sources_that_are_truncated_again_and_again_are_an_error(lab: Lab, between: Interrupt):
    between(elsewhere(lab, "TRUNCATE t"), times=5)
    lab.run("INSERT INTO t VALUES (10, 1)")

    with pytest.raises(ServerBusyError, match="again and again"):
        lab.trickle.refresh_stream_table("joined")
    lab.trickle.refresh_stream_table("joined")
    lab.check("joined")
