"""A stream table whose schema or table was dropped under it leaves no name behind."""

from __future__ import annotations

import pytest

from pgtrickle.errors import DependentsExistError, StreamTableNotFoundError
from tests.labs.lab import Lab


@pytest.fixture
def lost(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "CREATE SCHEMA reports",
    )
    lab.create("reports.made", "SELECT v, count(*) AS n FROM t GROUP BY v")
    return lab


def test_name_under_a_dropped_schema_can_be_created_again(lost: Lab) -> None:
    lost.run("DROP SCHEMA reports CASCADE", "CREATE SCHEMA reports")

    lost.create("reports.made", "SELECT id, v FROM t WHERE v > 5")
    lost.window("INSERT INTO t VALUES (3, 30)")

    lost.trickle.drop_stream_table("reports.made")
    assert lost.leftovers() == []


def test_name_of_a_dropped_table_can_be_created_again(lost: Lab) -> None:
    with lost.unwatched():
        lost.run("DROP TABLE reports.made CASCADE")

    lost.create("reports.made", "SELECT id FROM t")


def test_lost_table_without_its_schema_is_dropped_by_name(lost: Lab) -> None:
    lost.run("DROP SCHEMA reports CASCADE", "INSERT INTO t VALUES (3, 30)")
    with pytest.raises(StreamTableNotFoundError) as caught:
        lost.trickle.refresh_stream_table("reports.made")
    assert "pgtrickle drop reports.made" in caught.value.hint

    assert lost.trickle.drop_stream_table("reports.made") == ["reports.made"]
    assert lost.leftovers() == []


def test_refresh_without_changes_tells_of_the_loss(lost: Lab) -> None:
    with lost.unwatched():
        lost.run("DROP TABLE reports.made")

    for _ in range(2):
        with pytest.raises(StreamTableNotFoundError, match="lost its table") as caught:
            lost.trickle.refresh_stream_table("reports.made")
        assert "pgtrickle drop reports.made" in caught.value.hint


def test_lost_table_with_readers_is_offered_with_the_command(lost: Lab) -> None:
    lost.create("reader", "SELECT n FROM reports.made")
    lost.run("DROP SCHEMA reports CASCADE", "CREATE SCHEMA reports")

    with pytest.raises(DependentsExistError) as caught:
        lost.trickle.create_stream_table("reports.made", "SELECT id FROM t")

    assert "pgtrickle drop reports.made --cascade" in caught.value.hint
    lost.trickle.drop_stream_table("reports.made", cascade=True)
    lost.trickle.create_stream_table("reports.made", "SELECT id FROM t")
