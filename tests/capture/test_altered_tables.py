"""A write to a captured table never fails because of its capture, whatever was done to it (P45)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from pgtrickle.capture.triggers import renew_capture
from tests.capture.readers import capture, changes
from tests.catalog.databases import Database, value

ITEMS = """
    CREATE TABLE items (
        a int, id int PRIMARY KEY, name varchar(5), price numeric(6, 2), doc regclass, b int
    );
    INSERT INTO items VALUES (0, 1, 'one', 1.5, 'pg_class', 0), (0, 2, 'two', 2.5, 'pg_class', 0)
"""
WRITES = (
    "INSERT INTO items (id) VALUES (3)",
    "UPDATE items SET id = id + 10",
    "DELETE FROM items WHERE id = 12",
    "INSERT INTO items (id) VALUES (11) ON CONFLICT (id) DO UPDATE SET id = 21",
)

ALTERATIONS = (
    "ALTER TABLE items DROP COLUMN a",
    "ALTER TABLE items DROP COLUMN name",
    "ALTER TABLE items DROP COLUMN name, ADD COLUMN name varchar(5)",
    "ALTER TABLE items DROP COLUMN a, ADD COLUMN c int",
    "ALTER TABLE items RENAME COLUMN name TO title",
    "ALTER TABLE items ALTER COLUMN name TYPE varchar(50)",
    "ALTER TABLE items ALTER COLUMN name TYPE text",
    "ALTER TABLE items ALTER COLUMN price TYPE numeric(20, 2)",
    "ALTER TABLE items ALTER COLUMN price TYPE text",
    "ALTER TABLE items ALTER COLUMN price TYPE jsonb USING to_jsonb(price)",
    "ALTER TABLE items ALTER COLUMN doc TYPE oid",
    "ALTER TABLE items RENAME TO articles; CREATE VIEW items AS SELECT * FROM articles",
    "ALTER TABLE items ADD COLUMN more timestamptz DEFAULT clock_timestamp()",
    "TRUNCATE items; INSERT INTO items (id) VALUES (1), (2)",
    "CREATE SCHEMA away; ALTER TABLE items SET SCHEMA away; SET search_path = away",
)


@pytest.fixture(params=["by statement", "by row"])
def items(connection: Database, request: pytest.FixtureRequest) -> Database:
    """Make a table that is captured by statement triggers, or one that needs row triggers."""
    connection.execute(ITEMS)
    if request.param == "by row":
        connection.execute("CREATE TABLE parent (); ALTER TABLE items INHERIT parent")
    return connection


@pytest.mark.parametrize("when", ["at once", "renewed"])
@pytest.mark.parametrize("alteration", ALTERATIONS)
def test_p45_writes_go_on_after_an_alteration(
    items: Database, connect: Callable[[], Database], alteration: str, when: str
):
    captured = capture(items, "items", "id", "name", "price", "doc")
    items.execute("UPDATE items SET b = 1")  # this session has its plans by now
    items.execute(alteration.encode())
    if when == "renewed":
        with items.transaction():
            renew_capture(items, captured.source_relid)
    before = value(items, f"SELECT count(*) FROM {captured.buffer.sql}")

    newcomer = connect()
    newcomer.execute(f"SET search_path = {value(items, 'SHOW search_path')}".encode())
    for number, statement in enumerate(WRITES):
        (items, newcomer)[number % 2].execute(statement.encode())

    ids: Counter[int] = Counter(
        dict(
            items.execute(
                f"SELECT id, sum(__weight)::int FROM {captured.buffer.sql}"
                " WHERE __weight <> 0 GROUP BY id".encode()
            ).fetchall()
        )
    )
    assert {id_: weight for id_, weight in ids.items() if weight} | {1: -1, 2: -1} == {
        1: -1, 2: -1, 13: 1, 21: 1,
    }  # fmt: skip
    # One inserted, three updated, one deleted, one updated: an UPDATE counts twice.
    assert value(items, f"SELECT count(*) FROM {captured.buffer.sql}") - before == 10


@pytest.mark.parametrize(
    ("alteration", "column"),
    [
        ("RENAME COLUMN name TO title", "title"),
        ("ALTER COLUMN name TYPE varchar(50)", "name"),
        ("ALTER COLUMN name TYPE text", "name"),
        ("DROP COLUMN a", "name"),
        ("DROP COLUMN a, ADD COLUMN c varchar(5) DEFAULT 'wrong'", "name"),
    ],
)
def test_values_are_kept_where_they_mean_the_same(items: Database, alteration: str, column: str):
    captured = capture(items, "items", "id", "name")
    items.execute(f"ALTER TABLE items {alteration}".encode())

    items.execute(f"INSERT INTO items (id, {column}) VALUES (3, 'three')".encode())
    items.execute(f"UPDATE items SET {column} = 'four' WHERE id = 3".encode())

    assert changes(items, captured) == Counter([(3, "four")])


def test_column_of_another_type_is_left_out(items: Database):
    captured = capture(items, "items", "id", "price")
    items.execute("ALTER TABLE items ALTER COLUMN price TYPE text")

    items.execute("INSERT INTO items (id, price) VALUES (3, 'much')")

    assert changes(items, captured) == Counter([(3, None)])


def test_longer_values_than_before_are_kept(items: Database):
    captured = capture(items, "items", "name", "price")
    items.execute("ALTER TABLE items ALTER name TYPE varchar(9), ALTER price TYPE numeric(30, 9)")

    items.execute("INSERT INTO items (id, name, price) VALUES (3, 'longer so', 1e15 + 1e-9)")

    rows = items.execute(f"SELECT name, price::text FROM {captured.buffer.sql}".encode()).fetchall()
    assert len(rows) == 1
    assert rows[0][0] == "longer so"


def test_alteration_in_the_writers_own_transaction(items: Database):
    captured = capture(items, "items", "id", "name")
    with items.transaction():
        items.execute("INSERT INTO items (id, name) VALUES (3, 'three')")
        items.execute("ALTER TABLE items DROP COLUMN a")
        items.execute("INSERT INTO items (id, name) VALUES (4, 'four')")
        items.execute("ALTER TABLE items DROP COLUMN name")
        items.execute("INSERT INTO items (id) VALUES (5)")
        items.execute("ALTER TABLE items ALTER COLUMN id TYPE bigint")
        items.execute("INSERT INTO items (id) VALUES (6000000000)")

    assert changes(items, captured) == Counter([(3, "three"), (4, "four"), (5, None), (None, None)])


@pytest.mark.parametrize("alteration", ["RENAME name TO title", "DROP a", "ALTER id TYPE bigint"])
def test_snapshot_older_than_the_alteration(
    items: Database, connect: Callable[[], Database], alteration: str
):
    captured = capture(items, "items", "id", "name")
    writer = connect()
    with writer.transaction():
        writer.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        writer.execute("SELECT pg_current_snapshot()")
        items.execute(f"ALTER TABLE items {alteration}".encode())
        writer.execute("INSERT INTO items (id, price) VALUES (3, 1)")

    assert value(items, f"SELECT count(*) FROM {captured.buffer.sql}") == 1


def test_capture_of_200_columns_goes_on(connection: Database):
    listed = ", ".join(f"c{number} int" for number in range(200))
    connection.execute(f"CREATE TABLE wide ({listed})".encode())
    captured = capture(connection, "wide", "c3", "c199")
    connection.execute("INSERT INTO wide (c3, c199) VALUES (1, 2)")
    connection.execute("ALTER TABLE wide DROP COLUMN c4")

    connection.execute("INSERT INTO wide (c3, c199) VALUES (3, 4)")

    assert changes(connection, captured) == Counter([(1, 2), (3, 4)])
