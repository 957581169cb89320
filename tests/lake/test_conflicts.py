"""A transaction of a DuckDB client is under way when we commit: what it may still do, and what not.

DuckDB reads ``snapshot_changes`` to see what others did.  What is missing there, it would commit
over in silence.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

import duckdb
import pytest

from pgtrickle.lake.write.commit import begin_commit
from pgtrickle.model.text.names import QualifiedName
from tests.lake.workshop import Workshop


@pytest.fixture
def begun(workshop: Workshop) -> Workshop:
    """Make a table with three rows in a file, and let the client begin a transaction."""
    workshop.create("shared")
    workshop.append("shared", [1, 2, 3], ["a", "b", "c"])
    workshop.rows("BEGIN")
    return workshop


def _file_id(workshop: Workshop) -> int:
    [(id_,)] = workshop.connection.execute("SELECT data_file_id FROM lake.ducklake_data_file")
    return int(id_)


def _ids(workshop: Workshop) -> Counter[int]:
    return Counter(id_ for (id_,) in workshop.rows("SELECT id FROM shared"))


def test_insert_beside_our_append_succeeds_and_row_ids_are_distinct(begun: Workshop) -> None:
    begun.rows("INSERT INTO shared VALUES (10, 'theirs')")
    begun.append("shared", [4], ["ours"])

    begun.rows("COMMIT")

    assert _ids(begun) == Counter([1, 2, 3, 4, 10])
    assert begun.rows("SELECT count(DISTINCT rowid) FROM shared") == [(5,)]


def test_insert_beside_our_change_of_other_things_succeeds(begun: Workshop) -> None:
    begun.rows("INSERT INTO shared VALUES (10, 'theirs')")
    begun.create("other")
    begun.append("other", [1], ["ours"])
    with begun.connection.transaction():
        commit = begin_commit(begun.connection, begun.catalog)
        commit.put_view(0, QualifiedName("main", "shown"), "SELECT id FROM other")
        commit.finish(author="test", message="view")

    begun.rows("COMMIT")

    assert _ids(begun) == Counter([1, 2, 3, 10])
    assert begun.rows("SELECT id FROM shown") == [(1,)]


def test_delete_over_our_append_is_refused(begun: Workshop) -> None:
    begun.rows("DELETE FROM shared WHERE id < 10")
    begun.append("shared", [4], ["ours"])

    with pytest.raises(duckdb.Error, match="another transaction has inserted into it"):
        begun.rows("COMMIT")

    assert _ids(begun) == Counter([1, 2, 3, 4])


def test_delete_over_our_delete_is_refused(begun: Workshop) -> None:
    begun.rows("DELETE FROM shared WHERE id = 1")
    with begun.connection.transaction():
        commit = begin_commit(begun.connection, begun.catalog)
        gone = f"SELECT {_file_id(begun)}::bigint, 1::bigint"
        commit.inline_deletes(begun.tables["shared"][0], gone)
        commit.finish(author="test", message="delete")

    with pytest.raises(duckdb.Error, match="another transaction has deleted from it"):
        begun.rows("COMMIT")

    assert _ids(begun) == Counter([1, 3])


def test_insert_over_our_drop_is_refused(begun: Workshop) -> None:
    begun.rows("INSERT INTO shared VALUES (10, 'theirs')")
    with begun.connection.transaction():
        commit = begin_commit(begun.connection, begun.catalog)
        commit.drop_table(begun.tables["shared"][0])
        commit.finish(author="test", message="drop")

    with pytest.raises(duckdb.Error, match="another transaction has dropped it"):
        begun.rows("COMMIT")


def test_commit_waits_for_ours_and_then_succeeds(begun: Workshop) -> None:
    begun.rows("INSERT INTO shared VALUES (10, 'theirs')")
    file = begun.write("shared", [4], ["ours"])
    client = threading.Thread(target=begun.rows, args=["COMMIT"])
    waiting = (
        "SELECT count(*) FROM pg_locks JOIN pg_database AS d ON d.oid = database"
        " WHERE NOT granted AND datname = current_database()"
        " AND relation = 'lake.ducklake_snapshot'::regclass"
    )
    with begun.connection.transaction():
        commit = begin_commit(begun.connection, begun.catalog)
        commit.add_data_files(begun.tables["shared"][0], [file])
        client.start()
        while begun.connection.execute(waiting).fetchall() == [(0,)]:
            assert client.is_alive()
            time.sleep(0.02)
        commit.finish(author="test", message="append")
    client.join()

    assert _ids(begun) == Counter([1, 2, 3, 4, 10])


def test_length_of_the_footer_is_that_of_the_file(workshop: Workshop) -> None:
    workshop.create("shared")
    workshop.append("shared", [1, 2, 3], ["a", "b", "c"])
    [(path, footer, size)] = workshop.connection.execute(
        "SELECT path, footer_size, file_size_bytes FROM lake.ducklake_data_file"
    ).fetchall()

    data = (workshop.directory("shared") / path).read_bytes()

    assert (footer, size) == (int.from_bytes(data[-8:-4], "little"), len(data))
