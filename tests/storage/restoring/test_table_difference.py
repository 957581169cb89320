"""The difference of two tables, by one join: what EXCEPT ALL says, or nothing at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
import pytest

from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.table_snapshot import Copied
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.storage.apply import Applied, Places, ensure_row_index, is_outdated
from pgtrickle.storage.restoring.table_difference import list_changes, weigh_difference

_NAME = QualifiedName("public", "shown")
_COLUMNS = (
    Column("id", SqlType("integer", "int4", "N")),
    Column("amount", SqlType("numeric", "numeric", "N")),
    Column("note", SqlType("json", "json", "U")),
)
_FILL = "SELECT i, i / 2.0, json_build_object('n', i) FROM generate_series(1, 1000) AS i"
_LOOKS = "SELECT ROW(t.*)::text FROM {} AS t"
_CHANGES = {
    "nothing": (),
    "some rows": (
        "DELETE FROM shown WHERE id % 100 = 3",
        "UPDATE shown SET amount = amount + 1 WHERE id % 50 = 7",
        "INSERT INTO shown SELECT i, NULL, NULL FROM generate_series(2000, 2020) AS i",
    ),
    "looks": (
        "UPDATE shown SET amount = amount + 0.00 WHERE id < 9",
        """UPDATE shown SET note = ' {"n": 1}' WHERE id = 1""",
    ),
    "NULLs": ("UPDATE shown SET id = NULL, note = NULL WHERE id = 5",),
    "all rows": ("UPDATE shown SET id = -id",),
}
_COPIES = {
    "in both": (
        "INSERT INTO saved SELECT * FROM saved WHERE id = 1",
        "INSERT INTO shown SELECT * FROM shown WHERE id = 1",
    ),
    "in one": ("INSERT INTO saved SELECT * FROM saved WHERE id = 1",),
    "in the other": ("INSERT INTO shown SELECT * FROM shown WHERE id IN (1, 2)",),
    "exchanged": (
        "INSERT INTO saved SELECT * FROM saved WHERE id = 1",
        "INSERT INTO shown SELECT * FROM shown WHERE id = 2",
    ),
}


@pytest.fixture(params=["by a column", "by the hash of the row"])
def connection(database: str, request: pytest.FixtureRequest) -> Any:
    with psycopg.connect(database, autocommit=True) as connection:
        for statement in (
            f"CREATE TABLE saved (id, amount, note) AS {_FILL}",
            "CREATE TABLE shown AS TABLE saved",
        ):
            connection.execute(statement.encode())
        ensure_row_index(connection, _NAME, _COLUMNS)
        if request.param == "by the hash of the row":
            connection.execute("ALTER TABLE shown ALTER id SET (n_distinct = 5)")
        yield connection


def weigh(connection: Any, copied: Copied | None = None) -> Counter[str] | None:
    """Return the changes, by the text of each row; None if they were not found."""
    connection.execute("ANALYZE shown")
    with connection.transaction():
        places = weigh_difference(connection, _NAME, _COLUMNS, "ONLY saved", copied)
        if places is None:
            return None
        list_changes(connection, _NAME, _COLUMNS, places)
        gone = f"SELECT FROM shown AS s WHERE s.ctid = ANY (({places.removed})::tid[])"
        count = 'SELECT count(*) FROM "result__changes" WHERE __weight < 0'
        assert connection.execute(gone).rowcount == connection.execute(count).fetchone()[0]
        return Counter(
            dict(
                connection.execute(
                    'SELECT ROW(id, amount, note)::text, sum(__weight) FROM "result__changes"'
                    " GROUP BY 1"
                ).fetchall()
            )
        )


def differ(connection: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for table, weight in (("saved", 1), ("shown", -1)):
        for (row,) in connection.execute(_LOOKS.format(table)):
            found[row] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


@pytest.mark.parametrize("what", _CHANGES)
def test_differing_rows_are_found_by_how_they_look(connection: Any, what: str):
    for statement in _CHANGES[what]:
        connection.execute(statement)

    assert weigh(connection) == differ(connection)


@pytest.mark.parametrize("what", _COPIES)
def test_repeated_rows_are_noticed(connection: Any, what: str):
    for statement in _COPIES[what]:
        connection.execute(statement)

    assert weigh(connection) is None


def test_table_of_repeated_rows_is_not_joined(connection: Any):
    connection.execute("UPDATE shown SET id = 1, amount = 1, note = NULL")

    assert weigh(connection) is None


def test_differing_rows_are_fetched_at_their_places(connection: Any):
    """A join with the places would read the whole table again."""
    more = "SELECT i, i, NULL FROM generate_series(2001, 20000) AS i"
    for statement in (
        f"INSERT INTO saved {more}",
        f"INSERT INTO shown {more}",
        "UPDATE shown SET amount = 0 WHERE id % 50 = 7",
        "ANALYZE shown",
    ):
        connection.execute(statement.encode())
    with connection.transaction():
        found = weigh_difference(connection, _NAME, _COLUMNS, "ONLY saved")
        assert isinstance(found, Places)
        for table, places in (("shown", found.removed), ("saved", found.added)):
            query = f"SELECT FROM {table} WHERE ctid = ANY (({places})::tid[])"
            plan = "\n".join(line for (line,) in connection.execute(f"EXPLAIN {query}"))
            assert "Tid Scan" in plan


_SINCE = {
    "updates": ("UPDATE shown SET amount = amount + 1 WHERE id % 50 = 7",),
    "updates that are undone": (
        "UPDATE shown SET amount = amount + 1 WHERE id % 50 = 7",
        "UPDATE shown SET amount = amount - 1 WHERE id % 100 = 7",
    ),
    "more rows": ("INSERT INTO shown SELECT i, NULL, NULL FROM generate_series(2000, 2020) AS i",),
    "keys that others have": (
        "INSERT INTO shown SELECT id, amount + 1, note FROM shown WHERE id < 9",
        "UPDATE shown SET amount = 0 WHERE id = 9",
    ),
    "other keys": ("UPDATE shown SET id = id + 1 WHERE id % 50 = 7",),
    "an unknown key is gone": (
        "DELETE FROM shown WHERE id = 3",
        "INSERT INTO shown VALUES (2000, 1, NULL), (2001, 1, NULL)",
    ),
    "no key": ("INSERT INTO shown VALUES (NULL, 1, NULL)",),
    "the copy": (
        "UPDATE saved SET amount = 0 WHERE id = 3",
        "UPDATE shown SET amount = 0 WHERE id = 4",
    ),
    "rows of the copy are gone": ("DELETE FROM saved WHERE id = 3",),
}
_BY_COUNTING = {"updates", "updates that are undone", "more rows", "keys that others have"}
_COPIED = """
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text::int8 & 4294967295
"""


@pytest.mark.parametrize("what", [*_SINCE, *_CHANGES])
def test_rows_that_are_older_than_the_copy_are_only_counted(database: str, what: str):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE shown (id, amount, note) AS {_FILL}".encode())
        ensure_row_index(connection, _NAME, _COLUMNS)
        [(before,)] = connection.execute(_COPIED).fetchall()
        connection.execute("CREATE TABLE saved AS TABLE shown")
        [(by, rows)] = connection.execute("SELECT min(xmin::text), count(*) FROM saved").fetchall()
        for statement in {**_SINCE, **_CHANGES}[what]:
            connection.execute(statement.encode())

        with connection.transaction():
            assert weigh(connection, Copied(before, int(by), rows)) == differ(connection)
            # The way that was taken, which a wrong answer would hide.
            [(counted,)] = connection.execute(
                "SELECT count(*) FROM pg_attribute WHERE attname = 'keeping'"
                """ AND attrelid = to_regclass('pg_temp."result__places"')"""
            ).fetchall()

    assert counted == (what in _BY_COUNTING or what in {"nothing", "looks"})


def test_copy_of_a_row_that_was_there_is_noticed(database: str):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE shown (id, amount, note) AS {_FILL}".encode())
        [(before,)] = connection.execute(_COPIED).fetchall()
        connection.execute("CREATE TABLE saved AS TABLE shown")
        [(by,)] = connection.execute("SELECT xmin::text FROM saved LIMIT 1").fetchall()
        connection.execute("INSERT INTO shown SELECT * FROM shown WHERE id = 1")

        assert weigh(connection, Copied(before, int(by), 1000)) is None


def test_few_changed_rows_leave_the_statistics_alone(connection: Any):
    connection.execute("ANALYZE shown")

    assert not is_outdated(connection, _NAME, Applied(100, 100))
    assert is_outdated(connection, _NAME, Applied(101, 0))
    assert is_outdated(connection, _NAME, Applied(1, 1000))
