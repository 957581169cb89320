"""Our writers and DuckDB's clients, all at once on one catalog: no failure, no row lost.

``PGTRICKLE_LAKE_COMMITS`` says how many commits in all; ``make lake-crowd`` makes five thousand.
Our writers never rest, and the clients have DuckDB's default settings.  They do rest between their
commits: four that do not rest give up because of one another, also where nobody else writes.
``PGTRICKLE_LAKE_REST`` says for how many seconds.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import psycopg
import pytest

from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.lake.write.commit_turns import AUTHOR
from tests.fixtures.ducklake import lake_client
from tests.lake.workshop import Workshop

_COMMITS = int(os.environ.get("PGTRICKLE_LAKE_COMMITS", "240"))
_REST = float(os.environ.get("PGTRICKLE_LAKE_REST", "0.2"))
_OURS = [f"ours_{number}" for number in range(8)]
_THEIRS = [f"theirs_{number}" for number in range(4)]
_EACH = _COMMITS // (len(_OURS) + len(_THEIRS))
_ROWS = 3
_INLINED = 10  # DuckDB keeps fewer rows than this in the catalog


def _commit_ours(workshop: Workshop, dsn: str, name: str) -> None:
    """Append rows in each commit, and delete one of the rows of the commit before."""
    table_id, _ = workshop.tables[name]
    before: int | None = None
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(_EACH):
            first = number * _ROWS
            file = workshop.write(name, list(range(first, first + _ROWS)), ["x"] * _ROWS)
            with connection.transaction():
                commit = begin_commit(connection, workshop.catalog)
                [(file_id, _)] = commit.add_data_files(table_id, [file])
                if before is not None:
                    commit.inline_deletes(table_id, f"SELECT {before}::bigint, 1::bigint")
                commit.finish(author=AUTHOR, message="append")
            before = file_id


def _commit_theirs(dsn: str, name: str) -> None:
    """Insert by turns into the catalog itself and into files."""
    with lake_client(dsn, "lake") as client:
        for number in range(_EACH):
            rows = 1 if number % 2 else _INLINED + 1
            client.execute(f"INSERT INTO {name} SELECT {number} FROM range({rows})")
            time.sleep(_REST)


@pytest.mark.timeout(3600)
def test_our_commits_and_those_of_duckdb_clients_never_collide(workshop: Workshop, database: str):
    for name in _OURS:
        workshop.create(name)
    for name in _THEIRS:
        workshop.rows(f"CREATE TABLE {name} (id bigint)")
    errors: list[str] = []

    def guarded(work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is fails the test
            errors.append(f"{arguments[-1]}: {error}")

    threads = [
        threading.Thread(target=guarded, args=[_commit_ours, workshop, database, name])
        for name in _OURS
    ] + [
        threading.Thread(target=guarded, args=[_commit_theirs, database, name]) for name in _THEIRS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    counts = "SELECT count(*), count(DISTINCT rowid), count(DISTINCT id) FROM {}"
    ours = _EACH * _ROWS - (_EACH - 1)
    theirs = (_EACH - _EACH // 2) * (_INLINED + 1) + _EACH // 2
    for name in _OURS:
        assert workshop.rows(counts.format(name)) == [(ours, ours, ours)]
    for name in _THEIRS:
        assert workshop.rows(counts.format(name)) == [(theirs, theirs, _EACH)]
    made = len(_OURS) * (_EACH + 1) + len(_THEIRS) * (_EACH + 1)
    assert workshop.rows("SELECT max(snapshot_id) FROM lake.snapshots()") == [(made,)]
