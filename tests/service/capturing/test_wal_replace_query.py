"""Another query where sources are captured from the log: nothing is lost, nothing comes twice."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field

import psycopg
import pytest

from pgtrickle.errors import DataError
from pgtrickle.service.lifecycle.replacing import replace_query
from pgtrickle.service.lifecycle.replacing.successors import discard_abandoned
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.labs.wal_lab import create, modes, slots, triggers
from tests.service.lifecycle.test_replace_query import JOINED, OF_U, SHOP, SUMS, put

BOTH = (
    "SELECT k, sum(v) AS v FROM (SELECT k, v FROM t UNION ALL SELECT k, v FROM u) AS b GROUP BY k"
)


@pytest.fixture
def shop(wal: Lab) -> Lab:
    """Create a stream table over one of two tables, which the log captures."""
    wal.run(*SHOP)
    create(wal, "s", SUMS)
    assert modes(wal) == {"t": "WAL"}
    return wal


def published(lab: Lab) -> list[str]:
    rows = lab.rows("SELECT tablename FROM pg_publication_tables WHERE pubname LIKE 'pgtrickle%'")
    return [name for (name,) in rows]


def identities(lab: Lab) -> dict[str, str]:
    """Return how the log tells the rows of each table apart: f for all columns, d by default."""
    return dict(
        lab.rows("SELECT relname, relreplident::text FROM pg_class WHERE relname IN ('t', 'u')")
    )


def test_new_source_is_captured_from_the_log_and_the_old_one_is_released(shop: Lab):
    put(shop, JOINED)
    both = modes(shop), published(shop), identities(shop), triggers(shop)
    shop.window("UPDATE t SET v = v + 7 WHERE id < 9", "DELETE FROM u WHERE id = 3")

    put(shop, OF_U)
    shop.window("UPDATE u SET v = v + 7 WHERE id < 9", "DELETE FROM t WHERE id = 3")

    assert both == ({"t": "WAL", "u": "WAL"}, ["t", "u"], {"t": "f", "u": "f"}, 0)
    assert (modes(shop), published(shop), triggers(shop)) == ({"u": "WAL"}, ["u"], 0)
    assert identities(shop) == {"t": "d", "u": "f"}
    shop.trickle.drop_stream_table("s")
    assert shop.leftovers() == []
    assert slots(shop) == 0


def test_source_that_others_read_stays_with_the_log(shop: Lab):
    create(shop, "copy", "SELECT id, v FROM t")

    put(shop, OF_U)

    assert modes(shop) == {"t": "WAL", "u": "WAL"}
    shop.window("UPDATE u SET v = v + 7 WHERE id < 9", "DELETE FROM t WHERE id = 3")


def test_changes_while_the_successor_is_loaded_are_there_once(
    shop: Lab, writer: psycopg.Connection
):
    """Some commit meanwhile, the old query is refreshed meanwhile, some commit afterwards."""

    def meanwhile() -> None:
        shop.run(
            "INSERT INTO t VALUES (101, 1, 1000)",
            "UPDATE t SET v = v + 50000 WHERE id = 2",
            "DELETE FROM u WHERE id = 5",
        )
        writer.execute("INSERT INTO u VALUES (102, 2, 20), (101, 1, 10)")
        writer.execute("UPDATE t SET v = v + 3 WHERE k = 3")
        shop.trickle.refresh_stream_table("s")
        shop.run("INSERT INTO t VALUES (102, 2, 7000)")

    shop.before_next_stage(meanwhile)
    put(shop, BOTH)
    writer.commit()

    shop.window()
    shop.window(action="NO_DATA")
    shop.window("DELETE FROM t WHERE id > 100", "DELETE FROM u WHERE id > 100")


def test_load_that_fails_leaves_the_log_to_the_old_query(shop: Lab):
    with pytest.raises(DataError):
        shop.trickle.alter_stream_table(
            "s", query="SELECT k, sum(100 / (v + 3)) AS v FROM u GROUP BY k"
        )

    assert (modes(shop), published(shop)) == ({"t": "WAL"}, ["t"])
    assert identities(shop) == {"t": "f", "u": "d"}
    shop.window("UPDATE t SET v = v + 1 WHERE id = 7")


def test_what_a_dead_process_left_gives_its_source_back(
    shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die() -> None:
        raise SystemExit

    shop.before_next_stage(die)
    with monkeypatch.context() as patched:
        patched.setattr(replace_query, "discard", lambda *_: None)
        with pytest.raises(SystemExit):
            shop.trickle.alter_stream_table("s", query=OF_U)
    left = published(shop)
    shop.run("UPDATE pgtrickle.pgt_successors SET alive_until = now() - interval '1 s'")
    discard_abandoned(shop.trickle._runtime)

    assert left == ["t", "u"]
    assert (modes(shop), published(shop)) == ({"t": "WAL"}, ["t"])
    assert identities(shop) == {"t": "f", "u": "d"}
    shop.window("UPDATE t SET v = v + 1 WHERE id = 7")


def waits_for_lock(lab: Lab) -> bool:
    return bool(
        lab.value(
            "SELECT count(*) FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database"
            " WHERE d.datname = current_database() AND NOT l.granted"
        )
    )


def test_table_in_use_is_asked_for_again(shop: Lab, writer: psycopg.Connection):
    """A new column of a table from the log needs a lock on it, which is soon given up."""
    writer.execute("INSERT INTO t VALUES (200, 0, 1)")
    gave_up: list[bool] = []

    def finish() -> None:
        await_(lambda: waits_for_lock(shop))
        await_(lambda: not waits_for_lock(shop))
        gave_up.append(True)
        writer.commit()

    thread = threading.Thread(target=finish)
    thread.start()
    shop.trickle.alter_stream_table("s", query="SELECT k, sum(v + id) AS v FROM t GROUP BY k")
    thread.join()

    assert gave_up
    shop.queries["s"] = "SELECT k, sum(v + id) AS v FROM t GROUP BY k"
    shop.trickle.refresh_stream_table("s")
    shop.check("s")


@dataclass
class Writers:
    """Sessions that change both tables until they are told to stop."""

    dsn: str
    stop: threading.Event = field(default_factory=threading.Event)
    commits: int = 0
    errors: list[Exception] = field(default_factory=list)

    def write(self, number: int) -> None:
        try:
            with psycopg.connect(self.dsn) as connection:
                turn = 0
                while not self.stop.is_set():
                    turn += 1
                    self._transaction(connection, 1000 * number + turn % 40)
        except psycopg.Error as error:
            self.errors.append(error)

    def _transaction(self, connection: psycopg.Connection, key: int) -> None:
        for table in ("t", "u"):
            statement = f"INSERT INTO {table} VALUES (%(key)s, %(key)s %% 5, 1)"
            with suppress(psycopg.errors.UniqueViolation), connection.transaction():
                connection.execute(statement.encode(), {"key": key})
            change = f"UPDATE {table} SET v = v + 1, k = (k + 1) %% 5 WHERE id = %(key)s"
            connection.execute(change.encode(), {"key": key})
            if key % 3 == 0:
                connection.execute(f"DELETE FROM {table} WHERE id = %s".encode(), [key - 2])
        connection.commit()
        self.commits += 1


def test_replacements_under_load_lose_nothing_and_double_nothing(shop: Lab):
    writers = Writers(shop.trickle.dsn)
    threads = [threading.Thread(target=writers.write, args=[number]) for number in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        for query in (OF_U, BOTH, JOINED, SUMS, OF_U):
            shop.trickle.alter_stream_table("s", query=query)
            shop.queries["s"] = query
            assert set(modes(shop).values()) == {"WAL"}
            assert shop.trickle.verify_stream_table("s").ok
            report = shop.trickle.refresh_stream_table("s")
            assert report.action.value in {"DIFFERENTIAL", "NO_DATA"}, report.reason
            assert shop.trickle.verify_stream_table("s").ok
    finally:
        writers.stop.set()
        for thread in threads:
            thread.join()

    assert writers.errors == []
    assert writers.commits > 0
    shop.trickle.refresh_stream_table("s")
    shop.check("s")
