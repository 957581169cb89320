"""A committed change falls into exactly one window, whatever the order of transactions (P15)."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from pgtrickle.capture.buffers import settled_of
from pgtrickle.capture.fingerprint import list_fingerprints
from pgtrickle.capture.trim import settle_buffer, trim_buffer
from pgtrickle.capture.windows import (
    SourceChanges,
    changed_sources,
    consumed_predicate,
    get_frontier,
    window_predicate,
)
from pgtrickle.errors import SourceNotFoundError
from pgtrickle.model.frontier import PgSnapshot
from tests.capture.readers import (
    Bag,
    capture,
    changes,
    count_buffer,
    next_window,
    relid_of,
    snapshot,
    table,
    window,
)
from tests.catalog.databases import Database, value

Connect = Callable[[], Database]


def test_predicates_agree_with_postgres(connection: Database):
    generator = random.Random(7)
    for _ in range(50):
        xmin = generator.randrange(10, 30)
        xmax = generator.randrange(xmin, 40)
        running = {xmin, *generator.choices(range(xmin, xmax), k=3)} if xmax > xmin else set()
        frontier = PgSnapshot(xmin, xmax, frozenset(running))
        rows = connection.execute(
            f"""SELECT xid, {window_predicate(frontier)}, {consumed_predicate([frontier])},
                       pg_visible_in_snapshot(__xid, %s::pg_snapshot)
                  FROM generate_series(1, 45) AS xid, LATERAL (SELECT xid::text::xid8) AS x (__xid)
            """.encode(),
            (str(frontier),),
        ).fetchall()

        assert [(not seen, seen) for *_, seen in rows] == [row[1:3] for row in rows]
        assert [seen for *_, seen in rows] == [frontier.sees(row[0]) for row in rows]


def test_long_and_out_of_order_transactions_fall_in_one_window(
    connection: Database, connect: Connect
):
    captured = capture(connection, "orders", "id")
    long, late = connect(), connect()
    start = snapshot(connection)
    long.execute("BEGIN; INSERT INTO orders (id) VALUES (1)")
    late.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; INSERT INTO orders (id) VALUES (2)")
    connection.execute("INSERT INTO orders (id) VALUES (3)")

    first, after_first = next_window(connection, captured, start)
    late.execute("COMMIT")
    second, after_second = next_window(connection, captured, after_first)
    connection.execute("INSERT INTO orders (id) VALUES (4)")
    long.execute("INSERT INTO orders (id) VALUES (5)")
    long.execute("COMMIT")
    third, after_third = next_window(connection, captured, after_second)
    fourth, _ = next_window(connection, captured, after_third)

    assert first == Counter([(3,)])
    assert second == Counter([(2,)])
    assert third == Counter([(1,), (4,), (5,)])
    assert fourth == Counter()


def test_change_committed_between_snapshot_and_read_waits_for_the_next_window(
    connection: Database, connect: Connect
):
    captured = capture(connection, "orders", "id")
    start, reader = snapshot(connection), connect()
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    frontier = snapshot(reader)
    connection.execute("INSERT INTO orders (id) VALUES (1)")

    now = window(reader, captured, start)
    reader.execute("COMMIT")
    later, _ = next_window(reader, captured, frontier)

    assert (now, later) == (Counter(), Counter([(1,)]))


def test_prepared_transactions_fall_in_the_window_after_their_commit(connection: Database):
    if value(connection, "SELECT current_setting('max_prepared_transactions')::int") == 0:
        pytest.skip("the server allows no prepared transactions")
    captured = capture(connection, "orders", "id")
    start = snapshot(connection)
    name = connection.info.dbname
    connection.execute("BEGIN; INSERT INTO orders (id) VALUES (1)")
    connection.execute(f"PREPARE TRANSACTION '{name}'".encode())
    connection.execute("INSERT INTO orders (id) VALUES (2)")

    first, after_first = next_window(connection, captured, start)
    connection.execute(f"COMMIT PREPARED '{name}'".encode())
    second, after_second = next_window(connection, captured, after_first)
    third, _ = next_window(connection, captured, after_second)

    assert (first, second, third) == (Counter([(2,)]), Counter([(1,)]), Counter())


def test_changed_sources_answers_in_order_by_one_query(connection: Database):
    connection.execute("CREATE TABLE quiet (id int); CREATE TABLE cleared (id int)")
    orders = capture(connection, "orders", "id").source_relid
    quiet = capture(connection, "quiet", "id").source_relid
    cleared = capture(connection, "cleared", "id").source_relid
    start = snapshot(connection)
    connection.execute("INSERT INTO orders (id) VALUES (1), (2)")
    middle = snapshot(connection)
    connection.execute("UPDATE orders SET qty = 1 WHERE id = 1; TRUNCATE cleared")

    asked = [(cleared, start), (orders, start), (quiet, start), (orders, middle), (quiet, start)]
    answer = changed_sources(connection, asked)

    assert answer == [
        SourceChanges(cleared, 0, truncated=True),
        SourceChanges(orders, 4, truncated=False, touched=3),
        SourceChanges(quiet, 0, truncated=False),
        SourceChanges(orders, 2, truncated=False, touched=1),
        SourceChanges(quiet, 0, truncated=False),
    ]
    assert [found.changed for found in answer] == [True, True, False, True, False]
    assert changed_sources(connection, []) == []


def test_changed_sources_reports_a_missing_buffer(connection: Database):
    with pytest.raises(SourceNotFoundError):
        changed_sources(connection, [(4, PgSnapshot.parse("1:1:"))])


def test_frontier_names_cluster_and_database(connection: Database):
    frontier = get_frontier(connection)

    assert frontier.database_oid == value(
        connection, "SELECT oid FROM pg_database WHERE datname = current_database()"
    )
    assert frontier.same_database(get_frontier(connection))
    assert int(frontier.system_identifier) > 0


def test_trim_keeps_what_some_consumer_has_not_read(connection: Database, connect: Connect):
    captured = capture(connection, "orders", "id")
    running = connect()
    connection.execute("INSERT INTO orders (id) VALUES (1), (2), (3)")
    running.execute("BEGIN; INSERT INTO orders (id) VALUES (4)")
    slow = snapshot(connection)
    running.execute("COMMIT")
    connection.execute("INSERT INTO orders (id) VALUES (5)")
    fast = snapshot(connection)

    relid = captured.source_relid
    assert trim_buffer(connection, relid, [], 100) == 0
    assert trim_buffer(connection, relid, [slow, fast], 2) == 2
    assert trim_buffer(connection, relid, [slow, fast], 100) == 1
    assert trim_buffer(connection, relid, [slow, fast], 100) == 0
    assert window(connection, captured, slow) == Counter([(4,), (5,)])
    assert trim_buffer(connection, relid, [fast], 100) == 2


def test_trim_gives_way_to_a_rival(connection: Database, connect: Connect):
    captured = capture(connection, "orders", "id")
    connection.execute("INSERT INTO orders (id) VALUES (1), (2)")
    frontier, rival = snapshot(connection), connect()
    rival.execute("BEGIN")

    first = trim_buffer(rival, captured.source_relid, [frontier], 1)
    second = trim_buffer(connection, captured.source_relid, [frontier], 1)
    rival.execute("COMMIT")

    assert (first, second) == (1, 0)


def test_settled_rows_stay_in_every_window(connection: Database, connect: Connect):
    captured = capture(connection, "orders", "id", "status")
    slow, reader = snapshot(connection), connect()
    connection.execute(
        "INSERT INTO orders (id, status)"
        " SELECT g, repeat('x', 200) FROM generate_series(1, 30000) g"
    )
    fast = snapshot(connection)
    connection.execute("INSERT INTO orders (id) VALUES (0)")
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    expected = changes(connection, captured)

    moved = settle_buffer(connection, captured.source_relid, [slow, fast], 20_000)
    moved += settle_buffer(connection, captured.source_relid, [slow, fast], 20_000)

    settled = settled_of(captured.source_relid).sql
    assert moved == value(connection, f"SELECT count(*) FROM ONLY {settled}") == 30_000
    assert changes(reader, captured) == expected
    assert window(connection, captured, slow) == expected
    assert window(connection, captured, fast) == Counter([(0, None)])
    plan = connection.execute(
        f"EXPLAIN SELECT * FROM {captured.buffer.sql} WHERE {window_predicate(fast)}".encode()
    ).fetchall()
    assert any("Index Scan" in line for (line,) in plan)

    assert trim_buffer(connection, captured.source_relid, [fast], 100_000) == 30_000
    assert count_buffer(connection, captured) == 1


def test_p09_equal_changes_are_not_merged_when_they_settle(connection: Database):
    connection.execute("CREATE TABLE notes (note text)")
    captured = capture(connection, "notes", "note")
    slow = snapshot(connection)
    connection.execute("INSERT INTO notes SELECT repeat('x', 200) FROM generate_series(1, 30000)")
    fast = snapshot(connection)

    moved = settle_buffer(connection, captured.source_relid, [slow, fast], 100_000)

    assert moved == 30_000
    assert window(connection, captured, slow) == Counter({("x" * 200,): 30_000})


def test_small_buffer_is_not_settled(connection: Database):
    captured = capture(connection, "orders", "id")
    connection.execute("INSERT INTO orders (id) VALUES (1)")
    frontier = snapshot(connection)

    assert settle_buffer(connection, captured.source_relid, [frontier], 100) == 0
    assert settle_buffer(connection, captured.source_relid, [], 100) == 0


def test_widening_reaches_settled_rows_too(connection: Database):
    captured = capture(connection, "orders", "id", "status")
    connection.execute(
        "INSERT INTO orders (id, status)"
        " SELECT g, repeat('x', 200) FROM generate_series(1, 30000) g"
    )
    settle_buffer(connection, captured.source_relid, [snapshot(connection)], 100_000)

    connection.execute("ALTER TABLE orders ALTER status TYPE varchar")
    wider = capture(connection, "orders", "qty")
    connection.execute("DELETE FROM orders")
    frontier = snapshot(connection)

    assert wider.columns == ("id", "qty", "status")
    assert settle_buffer(connection, captured.source_relid, [frontier], 100_000) == 30_000
    assert count_buffer(connection, wider) == 60_000


@pytest.mark.parametrize("attempt", range(3))
def test_no_change_is_lost_when_writers_race_the_installation(
    connection: Database, database: str, attempt: int
):
    connection.execute("INSERT INTO orders (id, qty) SELECT g, 0 FROM generate_series(1, 200) g")
    stop, failures = threading.Event(), list[BaseException]()

    def write(seed: int) -> None:
        generator = random.Random(seed)
        try:
            with psycopg.connect(database) as writer:
                for number in range(100_000):
                    if stop.is_set():
                        return
                    # One lock order, so that writers do not deadlock among themselves.
                    for key in sorted(generator.sample(range(1, 200), 2)):
                        writer.execute("UPDATE orders SET qty = qty + 1 WHERE id = %s", (key,))
                    new = 1000 + seed * 1_000_000 + number
                    writer.execute("INSERT INTO orders (id, qty) VALUES (%s, 0)", (new,))
                    writer.execute("DELETE FROM orders WHERE id = %s", (new - 3,))
                    (writer.rollback if generator.random() < 0.2 else writer.commit)()
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.1 * (attempt + 1))

    captured = capture(connection, "orders", "id", "qty")
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        frontier, total = snapshot(connection), Bag(table(connection, captured))
    number = windows = 0
    while number < 15 or (not windows and number < 10_000):  # writers may be slow to come
        number += 1
        delta, frontier = next_window(connection, captured, frontier)
        total.update(delta)
        windows += bool(delta)
        trim_buffer(connection, captured.source_relid, [frontier], 1000)
    stop.set()
    for thread in threads:
        thread.join()
    delta, _ = next_window(connection, captured, frontier)
    total.update(delta)

    assert failures == []
    assert windows > 0
    assert Counter({row: count for row, count in total.items() if count}) == table(
        connection, captured
    )


def test_fingerprint_follows_the_columns_that_are_used(connection: Database):
    relid = relid_of(connection, "orders")
    asked = {relid: ["id", "price"], 4: ["id"]}
    first = list_fingerprints(connection, asked)
    connection.execute(
        "ALTER TABLE orders ADD extra int, DROP status, ALTER qty TYPE bigint, "
        "ALTER price SET NOT NULL"
    )
    connection.execute("ALTER TABLE orders RENAME TO purchases")
    same = list_fingerprints(connection, asked)
    connection.execute("ALTER TABLE purchases ALTER price TYPE numeric(12, 2)")
    retyped = list_fingerprints(connection, asked)
    connection.execute("ALTER TABLE purchases DROP price")
    dropped = list_fingerprints(connection, asked)

    assert first.keys() == {relid}
    assert first == same
    assert len({first[relid], retyped[relid], dropped[relid]}) == 3
