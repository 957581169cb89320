"""Our turn at a catalog: who is let go first, for whom nobody waits, and when there is no wait."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from pgtrickle.lake.write import commit_turns as turns
from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.lake.write.commit_turns import AUTHOR
from tests.lake.workshop import Workshop

_HOURS = 3600.0  # a test that waits for so long has failed


@pytest.fixture
def known(workshop: Workshop) -> Iterator[turns._Known]:
    """Make two tables, a minute ago, and forget what was seen of others meanwhile."""
    workshop.create("ours")
    workshop.rows("CREATE TABLE theirs (id bigint)")
    _a_minute_passes(workshop)
    turns._known[workshop.catalog] = turns._Known()
    yield turns._known[workshop.catalog]
    del turns._known[workshop.catalog]


def _a_minute_passes(workshop: Workshop) -> None:
    workshop.connection.execute(
        "UPDATE lake.ducklake_snapshot SET snapshot_time = snapshot_time - INTERVAL '1 min'"
    )


def _commit(workshop: Workshop, connection: psycopg.Connection | None = None) -> int:
    """Commit one row of ours, and return the snapshot."""
    connection = workshop.connection if connection is None else connection
    file = workshop.write("ours", [1], ["x"])
    with connection.transaction():
        commit = begin_commit(connection, workshop.catalog)
        commit.add_data_files(workshop.tables["ours"][0], [file])
        return commit.finish(author=AUTHOR, message="append")


def _await(condition: Callable[[], bool]) -> None:
    while not condition():  # the test's own timeout ends it
        time.sleep(0.005)


def _exists(workshop: Workshop, lock: str) -> bool:
    [(found,)] = workshop.connection.execute(
        f"SELECT EXISTS (SELECT FROM pg_locks WHERE {lock})".encode()
    )
    return bool(found)


def test_where_nobody_else_writes_there_is_no_wait(workshop: Workshop, known, monkeypatch):
    workshop.rows("INSERT INTO theirs VALUES (1)")
    _a_minute_passes(workshop)
    monkeypatch.delattr(turns, "_make_room")

    for _ in range(3):
        _commit(workshop)

    assert known.company_at == -math.inf


def test_snapshot_of_a_client_is_noticed(workshop: Workshop, known):
    workshop.rows("INSERT INTO theirs VALUES (1)")

    _commit(workshop)

    assert known.company_at == known.taken_at


def test_client_that_waits_for_us_is_noticed_and_gets_its_turn(workshop: Workshop, known):
    client = threading.Thread(target=workshop.rows, args=["INSERT INTO theirs VALUES (1)"])
    with psycopg.connect(workshop.connection.info.dsn) as ours:
        commit = begin_commit(ours, workshop.catalog)
        client.start()
        _await(lambda: _exists(workshop, "mode = 'RowExclusiveLock' AND NOT granted"))
        assert known.company_at == -math.inf
        commit.finish(author=AUTHOR, message="nothing")
    client.join()

    assert known.company_at == known.finished_at
    assert workshop.rows("SELECT id FROM theirs") == [(1,)]


def test_client_that_has_read_the_head_commits_first(workshop: Workshop, known, monkeypatch):
    monkeypatch.setattr(turns, "_PATIENCE", _HOURS)
    known.company_at = time.monotonic() + _HOURS
    workshop.rows("BEGIN")
    workshop.rows("INSERT INTO theirs VALUES (1)")
    [(head,)] = workshop.connection.execute("SELECT max(snapshot_id) FROM lake.ducklake_snapshot")
    snapshots: list[int] = []

    def commit() -> None:
        with psycopg.connect(workshop.connection.info.dsn, autocommit=True) as ours:
            snapshots.append(_commit(workshop, ours))

    writer = threading.Thread(target=commit)
    writer.start()
    _await(lambda: _exists(workshop, "mode = 'ShareUpdateExclusiveLock' AND granted"))
    workshop.rows("COMMIT")
    writer.join()

    assert snapshots == [head + 2]
    assert workshop.rows(f"SELECT count(*) FROM theirs AT (VERSION => {head + 1})") == [(1,)]


def test_reader_that_goes_on_is_waited_for_only_once(workshop: Workshop, known, monkeypatch):
    known.company_at = time.monotonic() + _HOURS
    workshop.rows("BEGIN")
    workshop.rows("SELECT * FROM theirs")
    monkeypatch.setattr(turns, "_PATIENCE", 0.0)
    _commit(workshop)
    assert len(known.slow) == 1
    monkeypatch.setattr(turns, "_PATIENCE", _HOURS)

    _commit(workshop)

    workshop.rows("COMMIT")
    _commit(workshop)
    assert known.slow == frozenset()


def test_transaction_that_holds_the_catalog_commits_to_it_again(workshop, known, monkeypatch):
    known.company_at = time.monotonic() + _HOURS
    with workshop.connection.transaction():
        first = _commit(workshop)
        monkeypatch.setattr(turns, "_rest", lambda held: _HOURS)
        workshop.rows("BEGIN")
        workshop.rows("SELECT * FROM theirs")

        second = _commit(workshop)

    assert second == first + 1


def test_our_writers_wait_for_each_other_outside_of_the_queue_for_the_table(workshop, known):
    with psycopg.connect(workshop.connection.info.dsn) as ours:
        begin_commit(ours, workshop.catalog)
        with psycopg.connect(workshop.connection.info.dsn, autocommit=True) as other:
            writer = threading.Thread(target=_commit, args=[workshop, other])
            writer.start()
            _await(lambda: _exists(workshop, "mode = 'ShareUpdateExclusiveLock' AND NOT granted"))
            assert not _exists(workshop, "mode <> 'ShareUpdateExclusiveLock' AND NOT granted")
            ours.rollback()
            writer.join()

    assert workshop.rows("SELECT id FROM ours") == [(1,)]
