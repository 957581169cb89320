"""Executors read a table by ranges of pages under one snapshot and stage results exactly once."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgtrickle.errors import ConnectionLostError, DataError, TrickleError, ValueOutOfRangeError
from pgtrickle.model.sql_type import SqlType
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.spark.executors.connection_file import connection_file, read_connection
from pgtrickle.spark.executors.large_read import LargeRead, page_count_sql
from pgtrickle.spark.executors.worker_errors import find_tagged, tagged
from pgtrickle.spark.run_stage import run, stage
from pgtrickle.spark.sessions.pair import SparkSessions
from pgtrickle.transit.carriers import Use, carrier_for
from tests.spark.exported_snapshot import exported_snapshot

BIGINT = carrier_for(SqlType("bigint", "int8", "N"))
TEXT = carrier_for(SqlType("text", "text", "S"), Use.PASS)
PRICE = carrier_for(SqlType("numeric(12,2)", "numeric", "N", 12, 2))
MOMENT = carrier_for(SqlType("timestamptz", "timestamptz", "D"))
ROWS = 20_000


@pytest.fixture
def orders(database: str) -> str:
    with psycopg.connect(database) as connection:
        connection.execute(
            "CREATE TABLE orders AS SELECT i::int8 AS id, 'o' || i AS name, "
            "(i * 1.25)::numeric(12,2) AS price, "
            "CASE i % 3 WHEN 0 THEN 'infinity' ELSE now() END::timestamptz AS at "
            f"FROM generate_series(1, {ROWS}) AS i"
        )
        connection.execute(
            "CREATE UNLOGGED TABLE staging (id int8, name text, price numeric(12,2), "
            "at timestamptz, __attempt text)"
        )
    return database


def _read_orders(dsn: str, snapshot: str, partitions: int) -> LargeRead:
    with psycopg.connect(dsn) as connection:
        pages = connection.execute(page_count_sql(QualifiedName("public", "orders"))).fetchone()
    assert pages is not None
    return LargeRead(
        "SELECT id, name, price::text, at FROM public.orders WHERE {ctid range}",
        (("id", BIGINT), ("name", TEXT), ("price", PRICE), ("at", MOMENT)),
        snapshot,
        relpages=pages[0],
        partitions=partitions,
    )


def test_ranges_of_pages_together_read_every_row_once(
    orders: str, spark_sessions: SparkSessions
) -> None:
    with exported_snapshot(orders) as snapshot, connection_file(orders) as path:
        read = _read_orders(orders, snapshot, partitions=5)
        with psycopg.connect(orders) as connection:
            connection.execute("INSERT INTO orders SELECT 99999999, 'late', 1, now()")

        result = run(
            spark_sessions.large(),
            {"o": read},
            "SELECT count(*) AS n, count(DISTINCT id) AS d, sum(price) AS s FROM {o}",
            connection_file=str(path),
        )

    assert len(read.partition_queries()) == 5
    total = Decimal("1.25") * (ROWS * (ROWS + 1) // 2)
    assert result.to_pylist() == [{"n": ROWS, "d": ROWS, "s": total}]


def test_executors_stage_exactly_the_rows_they_read(
    orders: str, spark_sessions: SparkSessions
) -> None:
    with exported_snapshot(orders) as snapshot, connection_file(orders) as path:
        read = _read_orders(orders, snapshot, partitions=4)

        stage(
            spark_sessions.large(),
            {"o": read},
            "SELECT id, name, price, at FROM {o}",
            ("public", "staging"),
            connection_file=str(path),
        )

    with psycopg.connect(orders) as connection:
        row = connection.execute(
            "SELECT count(*) FROM (SELECT * FROM orders EXCEPT ALL SELECT * FROM staging) AS x"
        ).fetchone()
        staged = connection.execute("SELECT count(*) FROM staging").fetchone()
    assert (row, staged) == ((0,), (ROWS,))


def test_rows_of_an_attempt_that_was_not_accepted_are_removed(
    orders: str, spark_sessions: SparkSessions
) -> None:
    with psycopg.connect(orders) as connection:
        connection.execute("INSERT INTO staging VALUES (1, 'zombie', 1, now(), '0.987654')")
    table = pa.table({"id": pa.array([7], pa.int64()), "name": ["kept"]})

    with connection_file(orders) as path:
        stage(
            spark_sessions.large(),
            {"t": table},
            "SELECT id, name FROM {t}",
            ("public", "staging"),
            connection_file=str(path),
        )

    with psycopg.connect(orders) as connection:
        assert connection.execute("SELECT id, name FROM staging").fetchall() == [(7, "kept")]
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("INSERT INTO staging (id, __attempt) VALUES (2, '0.987655')")


def test_errors_of_executors_keep_their_code(orders: str, spark_sessions: SparkSessions) -> None:
    session = spark_sessions.large()
    with exported_snapshot(orders) as snapshot, connection_file(orders) as path:
        divided = LargeRead(
            "SELECT id / (id - 15000) FROM public.orders", (("x", BIGINT),), snapshot
        )
        nan = LargeRead("SELECT 'NaN'::text AS x", (("x", PRICE),), snapshot)

        with pytest.raises(DataError):
            run(session, {"o": divided}, "SELECT * FROM {o}", connection_file=str(path))
        with pytest.raises(ValueOutOfRangeError, match='column "x"'):
            run(session, {"o": nan}, "SELECT * FROM {o}", connection_file=str(path))


def test_plans_show_no_secret(orders: str, spark_sessions: SparkSessions) -> None:
    read = LargeRead("SELECT 1::int8 AS x", (("x", BIGINT),), "00000003-00000002-1")

    assert "password" not in str(read.options())
    assert set(read.options()) == {"queries", "snapshot", "finite_only"}


def test_the_connection_file_is_private_and_goes_away() -> None:
    with connection_file("host=x password=secret") as path:
        mode, text = path.stat().st_mode & 0o777, read_connection(str(path))

    assert (mode, text) == (0o600, "host=x password=secret")
    assert not path.exists()


def test_executors_without_the_file_use_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGTRICKLE_DSN", "host=elsewhere")
    found = read_connection("/nonexistent")
    monkeypatch.delenv("PGTRICKLE_DSN")

    assert found == "host=elsewhere"
    with pytest.raises(ConnectionLostError):
        read_connection("/nonexistent")


def test_executors_elsewhere_log_in_as_the_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A superuser's DSN in their environment gives them no more rights than the driver has."""
    with connection_file(r"host=x user='o\'wner /a'") as path:
        pass
    monkeypatch.setenv("PGTRICKLE_DSN", "postgresql://postgres:secret@elsewhere/shop")

    found = conninfo_to_dict(read_connection(str(path)))

    assert (found["user"], found["host"]) == ("o'wner /a", "elsewhere")


def test_ranges_cover_all_pages_without_overlap() -> None:
    read = LargeRead("{ctid range}", (), "1", relpages=10, partitions=3)

    assert read.partition_queries() == [
        "(ctid >= '(0,0)'::tid AND ctid < '(3,0)'::tid)",
        "(ctid >= '(3,0)'::tid AND ctid < '(6,0)'::tid)",
        "ctid >= '(6,0)'::tid",
    ]


def test_a_tagged_error_survives_as_text() -> None:
    raised = ValueOutOfRangeError('the column "a\nb"', detail="d", hint="h")
    raised.sqlstate = "22003"
    with pytest.raises(RuntimeError) as caught, tagged():
        raise raised

    error = find_tagged(f"Traceback ...\nRuntimeError: {caught.value}\n more")

    assert isinstance(error, TrickleError)
    assert (str(error), error.detail, error.hint) == ('the column "a\nb"', "d", "h")
    assert error.sqlstate == "22003"


def test_what_looks_like_a_page_range_in_a_literal_is_data() -> None:
    query = "SELECT '{ctid range}' AS x FROM t WHERE ({ctid range})"
    read = LargeRead(query, (("x", TEXT),), "snapshot", relpages=10, partitions=2)

    first, second = read.partition_queries()

    assert first == (
        "SELECT '{ctid range}' AS x FROM t WHERE ((ctid >= '(0,0)'::tid AND ctid < '(5,0)'::tid))"
    )
    assert second == "SELECT '{ctid range}' AS x FROM t WHERE (ctid >= '(5,0)'::tid)"
