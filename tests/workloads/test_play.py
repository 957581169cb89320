"""A run of a workload notices what it is there to notice."""

from __future__ import annotations

from psycopg import Connection
from psycopg.rows import TupleRow

from tests.workloads.conftest import Play
from tests.workloads.workload import Workload

_QUERY = "SELECT id, n FROM t WHERE n > 0"


def _toy(*statements: str, query: str = _QUERY) -> Workload:
    def load(connection: Connection[TupleRow]) -> None:
        connection.execute("CREATE TABLE t (id int, n int)")
        connection.execute("INSERT INTO t VALUES (1, 1), (2, 2), (3, 0)")

    def change(connection: Connection[TupleRow], cycle: int) -> None:
        for statement in statements:
            connection.execute(statement.encode())

    return Workload("toy", {"q": query}, load=load, change=change)


def _failure_of(play: Play, workload: Workload) -> str:
    return play(workload)["q"].failure or ""


def test_a_table_that_follows_its_query_passes(play_on_engine: Play):
    outcome = play_on_engine(_toy("UPDATE t SET n = n + 1"))["q"]

    assert outcome.failure is None
    assert outcome.cycles == 3
    assert outcome.rows_changed == [5, 6, 6]


def test_a_difference_fails(play_on_engine: Play):
    tampered = _toy(
        "UPDATE t SET n = n + 1 WHERE id = 1",
        "ALTER TABLE toy_q DISABLE TRIGGER pgtrickle_guard",
        "DELETE FROM toy_q WHERE id = 2",
    )

    assert "1 rows differ" in _failure_of(play_on_engine, tampered)


def test_a_full_refresh_fails(play_on_engine: Play):
    truncated = _toy("TRUNCATE t", "INSERT INTO t VALUES (1, 1)")

    assert "the refresh was FULL" in _failure_of(play_on_engine, truncated)


def test_a_query_that_is_not_differential_fails(play_on_engine: Play):
    refused = _toy(query="SELECT id, n FROM t WHERE age(timestamptz '2020-01-01') > '1 day'")

    assert "first load: ST10" in _failure_of(play_on_engine, refused)


def test_an_answer_that_never_changes_fails(play_on_engine: Play):
    idle = _toy("UPDATE t SET n = -1 WHERE id = 3")

    assert "never changed" in _failure_of(play_on_engine, idle)
