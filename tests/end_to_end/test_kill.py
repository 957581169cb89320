"""kill -9 of the refreshing process under load: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.daemons import await_
from tests.seeds import seed_of

_DOOMED = "doomed"
_TABLES = {
    "moves": "SELECT id, account_id, amount FROM transfers WHERE amount > 50",
    "balances": "SELECT a.branch, sum(t.amount) AS total, count(*) AS transfers,"
    " max(t.amount) AS largest FROM transfers AS t JOIN accounts AS a ON a.id = t.account_id"
    " GROUP BY a.branch",
    "top": "SELECT count(*) AS branches, sum(total) AS total FROM balances",
}
_SHOP = """
    CREATE TABLE accounts (id integer PRIMARY KEY, branch integer);
    CREATE TABLE transfers (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account_id integer, amount integer
    );
    CREATE INDEX ON transfers (account_id);
    INSERT INTO accounts SELECT i, i % 7 FROM generate_series(1, 100) AS i;
    INSERT INTO transfers (account_id, amount)
    SELECT 1 + i % 100, i % 100 FROM generate_series(1, 2000) AS i;
"""


@contextmanager
def writing(dsn: str) -> Iterator[None]:
    """Change both sources in small transactions, some of them rolled back, until the end."""
    stop = threading.Event()

    def write() -> None:
        chance = random.Random(1)
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not stop.wait(0.005):
                account = chance.randint(1, 100)
                with connection.transaction(force_rollback=chance.random() < 0.2):
                    connection.execute(
                        "INSERT INTO transfers (account_id, amount) VALUES (%s, %s)",
                        [account, chance.randint(0, 100)],
                    )
                    connection.execute(
                        "UPDATE transfers SET amount = amount + 1 WHERE account_id = %s", [account]
                    )
                    connection.execute(
                        "DELETE FROM transfers WHERE account_id = %s AND amount > 110", [account]
                    )
                    connection.execute(
                        "UPDATE accounts SET branch = %s WHERE id = %s",
                        [chance.randint(0, 6), chance.randint(1, 100)],
                    )

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def kill_at_random(dsn: str, engine: str, longest: float, chance: random.Random) -> list[str]:
    """Start a refreshing process, kill it after its first refresh; return what it printed."""
    environment = os.environ | {"PGTRICKLE_LEASE_SECONDS": "1"}
    doomed = make_conninfo(dsn, application_name=_DOOMED)
    command = [sys.executable, "-m", "tests.end_to_end.refresh_forever", doomed, engine, *_TABLES]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(chance.uniform(0, longest))
        process.kill()
        return [first, *process.stdout.read().splitlines()]


def is_left_alone(dsn: str) -> bool:
    """Tell whether the server has noticed the last death, and the last lease has ended."""
    with psycopg.connect(dsn) as connection:
        [(found,)] = connection.execute(
            "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = %s)"
            " AND NOT EXISTS (SELECT FROM pgtrickle.pgt_leases"
            " WHERE expires_at > clock_timestamp())",
            [_DOOMED],
        ).fetchall()
    return bool(found)


@pytest.mark.parametrize(("engine", "kills", "longest"), [("duckdb", 27, 0.4), ("spark", 3, 2.0)])
def test_killed_refreshes_lose_nothing_and_count_nothing_twice(
    database: str, engine: str, kills: int, longest: float
) -> None:
    seed = seed_of("PGTRICKLE_KILL_SEED", 7)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with pgtrickle.connect(database, engine=DuckDbEngine()) as trickle:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(_SHOP)
        for name, query in _TABLES.items():
            trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")

        with writing(database):
            printed = [kill_at_random(database, engine, longest, chance) for _ in range(kills)]
        await_(partial(is_left_alone, database))

        actions = {line.split()[1] for lines in printed for line in lines if len(line.split()) == 2}
        assert actions <= {"DIFFERENTIAL", "NO_DATA"}
        assert "DIFFERENTIAL" in actions
        last = [trickle.refresh_stream_table(name).action.value for name in _TABLES]
        assert set(last) <= {"DIFFERENTIAL", "NO_DATA"}
        assert [trickle.verify_stream_table(name).ok for name in _TABLES] == [True] * len(_TABLES)
