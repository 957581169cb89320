"""Sources that change shape, and settings of the database that change what values mean."""

from __future__ import annotations

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import TrickleError
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.service.lab import Lab


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v text, spare int)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b')",
    )
    lab.create("counts", "SELECT k, count(*) AS n, max(v) AS v FROM t GROUP BY k")
    return lab


def code_of(lab: Lab, name: str) -> str:
    with pytest.raises(TrickleError) as caught:
        lab.trickle.refresh_stream_table(name)
    assert caught.value.hint
    return caught.value.code


def test_column_that_is_not_read_may_come_and_go(shop: Lab):
    shop.run("ALTER TABLE t ADD COLUMN more int", "ALTER TABLE t DROP COLUMN spare")

    shop.window("INSERT INTO t (id, k, v, more) VALUES (3, 2, 'c', 1)")


def test_column_that_is_read_is_widened(shop: Lab):
    shop.run("ALTER TABLE t ALTER COLUMN id TYPE bigint")

    shop.window("INSERT INTO t VALUES (3000000000, 2, 'c')", action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (3000000001, 2, 'c')")


def test_group_column_changes_its_type(shop: Lab):
    shop.run("ALTER TABLE t ALTER COLUMN k TYPE bigint")

    assert code_of(shop, "counts") == "ST302"
    shop.run("ALTER TABLE t ALTER COLUMN k TYPE int")
    shop.window(action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_column_changes_its_type_without_changing_the_result(lab: Lab):
    lab.run("CREATE TABLE t (id int, k int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.create("sums", "SELECT id, sum(k)::numeric AS s FROM t GROUP BY id")

    lab.run("ALTER TABLE t ALTER COLUMN k TYPE bigint")
    lab.window("INSERT INTO t VALUES (1, 9)", action="REINITIALIZE")
    lab.window("INSERT INTO t VALUES (2, 9000000000)")


def test_column_that_is_read_is_renamed(shop: Lab):
    shop.run("ALTER TABLE t RENAME COLUMN v TO renamed")

    assert code_of(shop, "counts") in {"ST105", "ST302"}
    shop.run("ALTER TABLE t RENAME COLUMN renamed TO v")
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_column_that_is_read_is_dropped(shop: Lab):
    shop.run("ALTER TABLE t DROP COLUMN v")

    assert code_of(shop, "counts") in {"ST105", "ST302"}
    shop.trickle.drop_stream_table("counts")
    assert shop.leftovers() == []
    shop.run("INSERT INTO t VALUES (3, 2)")


def test_table_is_renamed(shop: Lab):
    shop.run("ALTER TABLE t RENAME TO renamed")

    shop.run("INSERT INTO renamed VALUES (3, 2, 'c')")
    code_or_action = shop.trickle.refresh_stream_table("counts").action.value
    assert code_or_action == "DIFFERENTIAL"
    assert shop.rows("TABLE counts") == shop.rows(
        "SELECT k, count(*), max(v) FROM renamed GROUP BY k"
    )


def test_source_is_dropped(shop: Lab):
    shop.run("DROP TABLE t CASCADE")

    assert code_of(shop, "counts") == "ST301"
    [failed] = shop.trickle.refresh_history("counts", limit=1)
    assert (failed.status.value, failed.error_code) == ("FAILED", "ST301")
    shop.trickle.drop_stream_table("counts")
    assert shop.leftovers() == []


def test_source_is_dropped_and_made_again(shop: Lab):
    shop.run("DROP TABLE t CASCADE", "CREATE TABLE t (id int, k int, v text)")

    assert code_of(shop, "counts") == "ST301"
    shop.trickle.drop_stream_table("counts")
    shop.queries.clear()
    shop.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_view_is_replaced(lab: Lab):
    lab.run("CREATE TABLE t (id int, k int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.run("CREATE VIEW seen AS SELECT id FROM t WHERE k = 1")
    lab.create("made", "SELECT id FROM seen")

    lab.run("CREATE OR REPLACE VIEW seen AS SELECT id FROM t WHERE k = 2")
    lab.window("INSERT INTO t VALUES (3, 2), (4, 1)", action="REINITIALIZE")
    lab.window("INSERT INTO t VALUES (5, 2), (6, 1)")


def test_stream_table_was_written_by_hand(shop: Lab):
    shop.run("DELETE FROM counts")

    shop.run("INSERT INTO t VALUES (3, 1, 'z')")
    assert code_of(shop, "counts") == "ST406"
    shop.trickle.refresh_stream_table("counts", full=True)
    shop.check("counts")
    shop.window("INSERT INTO t VALUES (4, 1, 'zz')")


def test_stream_table_was_dropped_by_hand(shop: Lab):
    shop.run("DROP TABLE counts", "INSERT INTO t VALUES (3, 1, 'z')")

    assert code_of(shop, "counts") == "ST201"
    shop.trickle.drop_stream_table("counts")
    assert shop.leftovers() == []


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_time_zone_of_the_database(database: str, duckdb_engine: DuckDbEngine, zone: str):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET timezone = '{zone}'".encode()
        )
    with (
        pgtrickle.connect(database, engine=Borrowed(duckdb_engine)) as trickle,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        lab = Lab(trickle, connection)
        lab.run("CREATE TABLE t (id int, at timestamptz)")
        lab.run("INSERT INTO t VALUES (1, '2026-01-01 20:00+00'), (2, '2026-07-01 02:00+00')")
        lab.create("days", "SELECT id, at::date AS day, to_char(at, 'HH24:MI') AS clock FROM t")
        lab.create("by_day", "SELECT date_trunc('day', at) AS day, count(*) AS n FROM t GROUP BY 1")

        lab.window("INSERT INTO t VALUES (3, '2026-01-01 14:59+00'), (4, '2026-01-01 15:01+00')")


def test_values_are_rewritten_by_alter_table(shop: Lab):
    shop.run("ALTER TABLE t ALTER COLUMN k TYPE int USING k + 1")

    shop.window("INSERT INTO t VALUES (3, 2, 'c')", action="REINITIALIZE")
