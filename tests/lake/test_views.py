"""The lake shows a copy under the own name of its stream table, as a view of DuckDB."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.lake.shore import COPY, SUMS, Shore


def through_view(shore: Shore, name: str) -> Counter[tuple[object, ...]]:
    return Counter(shore.ask(f"SELECT * FROM {name}"))


def test_the_view_shows_what_the_copy_holds(shore: Shore) -> None:
    shore.create("sums", SUMS)
    assert through_view(shore, "public.sums") == Counter(shore.tell("TABLE sums"))
    shore.window("sums", "UPDATE t SET v = v + 1 WHERE k = 2")
    assert through_view(shore, "public.sums") == Counter(shore.tell("TABLE sums"))
    shore.client.execute("USE memory")  # names in the view are those of its own lake
    assert through_view(shore, "lake.public.sums") == Counter(shore.tell("TABLE sums"))


def test_a_client_that_is_attached_sees_a_new_view_and_its_end(shore: Shore) -> None:
    assert shore.ask("SELECT count(*) FROM duckdb_views() WHERE database_name = 'lake'") == [(0,)]
    shore.trickle.create_stream_table(
        "sums", SUMS, sink="ducklake", ducklake_table='marts."Daily Sums"'
    )
    assert shore.ask("SELECT view_name FROM duckdb_views() WHERE database_name = 'lake'") == [
        ("sums",)
    ]
    [(snapshot,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
    shore.trickle.alter_stream_table("sums", sink="none")
    assert shore.ask("SELECT count(*) FROM duckdb_views() WHERE database_name = 'lake'") == [(0,)]
    assert through_view(shore, 'marts."Daily Sums"') == Counter(shore.tell("TABLE sums"))
    [(live,)] = shore.tell(
        f"SELECT begin_snapshot <= {snapshot} AND end_snapshot > {snapshot} FROM lake.ducklake_view"
    )
    assert live


def test_the_view_ends_with_the_stream_table_and_comes_again_with_it(shore: Shore) -> None:
    for _ in range(2):
        shore.create("sums", SUMS)
        assert through_view(shore, "public.sums") == Counter(shore.tell("TABLE sums"))
        shore.trickle.drop_stream_table("sums")
        assert shore.ask("SELECT count(*) FROM duckdb_views() WHERE database_name = 'lake'") == [
            (0,)
        ]


def test_the_view_follows_columns_of_other_types(shore: Shore) -> None:
    shore.run("CREATE TABLE n (id int PRIMARY KEY, x numeric)", "INSERT INTO n VALUES (1, 1.5)")
    shore.create("wide", "SELECT id, x FROM n")
    shore.window("wide", "INSERT INTO n VALUES (2, 0.123456789)")
    assert through_view(shore, "public.wide") == Counter(shore.tell("TABLE wide"))
    [(count,)] = shore.tell("SELECT count(*) FROM lake.ducklake_view WHERE end_snapshot IS NULL")
    assert count == 1


@pytest.mark.parametrize("theirs", ["TABLE", "VIEW"])
def test_a_name_that_is_taken_is_left_alone(
    shore: Shore, caplog: pytest.LogCaptureFixture, theirs: str
) -> None:
    shore.ask("CREATE SCHEMA public")
    shore.ask(f"CREATE {theirs} public.COPIED AS SELECT 42 AS theirs")
    shore.create("copied", COPY)
    assert shore.ask("SELECT * FROM public.copied") == [(42,)]
    assert "no view was made" in caplog.text
    shore.trickle.drop_stream_table("copied")
    assert shore.ask("SELECT * FROM public.copied") == [(42,)]


def test_a_copy_of_the_same_name_needs_no_view(shore: Shore) -> None:
    shore.trickle.create_stream_table("sums", SUMS, sink="ducklake", ducklake_table="public.sums")
    assert shore.tell("SELECT count(*) FROM lake.ducklake_view") == [(0,)]
    assert through_view(shore, "public.sums") == Counter(shore.tell("TABLE sums"))


def test_a_view_that_was_dropped_in_duckdb_stays_away_and_harms_nothing(shore: Shore) -> None:
    shore.create("sums", SUMS)
    shore.ask("DROP VIEW public.sums")
    shore.window("sums", "UPDATE t SET v = v + 1 WHERE k = 2")
    assert shore.ask("SELECT count(*) FROM duckdb_views() WHERE database_name = 'lake'") == [(0,)]
    shore.trickle.drop_stream_table("sums")


def test_without_the_catalog_a_sink_is_turned_off_all_the_same(
    shore: Shore, caplog: pytest.LogCaptureFixture
) -> None:
    shore.create("sums", SUMS)
    shore.client.execute("USE memory")
    shore.client.execute("DETACH lake")
    shore.run("DROP SCHEMA lake CASCADE")
    shore.trickle.alter_stream_table("sums", sink="none")
    assert "the catalog of the lake is gone" in caplog.text
    assert shore.trickle.lake.ducklake_sink_status() == []
