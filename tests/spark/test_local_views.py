"""The short way into the JVM shows what the public way shows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from pgtrickle.spark.local_views import local_frame, views_of
from pgtrickle.spark.sessions.pair import SparkSessions

_UTC = dt.UTC
_NOON = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
_EVERYTHING = pa.table(
    {
        "bool": pa.array([True, None, False]),
        "short": pa.array([1, None, -32768], pa.int16()),
        "int": pa.array([1, None, -5], pa.int32()),
        "long": pa.array([2**62, None, 0], pa.int64()),
        "float": pa.array([0.5, None, float("nan")], pa.float32()),
        "double": pa.array([float("inf"), None, -0.0], pa.float64()),
        "decimal": pa.array([Decimal("12.34"), None, Decimal("-0.01")], pa.decimal128(38, 2)),
        "text": pa.array(["grüß", None, ""]),
        "bytes": pa.array([b"\x00\xff", None, b""]),
        "date": pa.array([dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]),
        "time": pa.array([_NOON, None, _NOON], pa.timestamp("us")),
        "instant": pa.array([_NOON.replace(tzinfo=_UTC), None, None], pa.timestamp("us", "UTC")),
        "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    }
)
_CHUNKED = pa.concat_tables([_EVERYTHING, _EVERYTHING.slice(0, 0), _EVERYTHING])


@pytest.mark.parametrize("table", [_EVERYTHING, _CHUNKED, _EVERYTHING.slice(0, 0)])
def test_a_view_holds_the_rows_of_its_table(spark_sessions: SparkSessions, table: pa.Table) -> None:
    session = spark_sessions.small()

    for _ in range(2):  # the first view of a schema goes another way than the next
        with views_of(session, {"t": table}) as names:
            shown = session.table(names["t"])
            assert str(shown.toArrow()) == str(local_frame(session, table).toArrow())
            assert shown.schema == local_frame(session, table).schema

    assert [view.name for view in session.catalog.listTables()] == []


def test_a_view_is_one_partition(spark_sessions: SparkSessions) -> None:
    session = spark_sessions.small()

    for _ in range(2):
        with views_of(session, {"l": _EVERYTHING, "r": _EVERYTHING}) as names:
            text = f"EXPLAIN SELECT * FROM {names['l']} JOIN {names['r']} USING (long)"
            assert "Exchange" not in session.sql(text).collect()[0][0]
