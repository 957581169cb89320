"""Every type, there and back: DuckDB shows the value that PostgreSQL holds, digit for digit."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from pgtrickle.lake.format.table_layout import choose_columns
from pgtrickle.model.sql_type import Column, SqlType
from tests.lake.shore import Shore

_WIDEST = "1234567890123456789012345678.0123456789"
_UUID = "12345678-9abc-def0-1234-56789abcdef0"

# PostgreSQL's type, the type DuckDB shows, and pairs of a PostgreSQL text and DuckDB's value.
CASES: dict[str, tuple[str, str, list[tuple[str, Any]]]] = {
    "boolean": ("boolean", "BOOLEAN", [("true", True), ("false", False)]),
    "smallint": ("smallint", "SMALLINT", [("-32768", -32768), ("32767", 32767)]),
    "integer": ("integer", "INTEGER", [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]),
    "bigint": ("bigint", "BIGINT", [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)]),
    "real": ("real", "FLOAT", [("0.1", 0.10000000149011612), ("-Infinity", -math.inf)]),
    "double": (
        "double precision",
        "DOUBLE",
        [("0.1", 0.1), ("5e-324", 5e-324), ("-1.7976931348623157e308", -1.7976931348623157e308)],
    ),
    "numeric": (
        "numeric(12,2)",
        "DECIMAL(12,2)",
        [("9999999999.99", Decimal("9999999999.99")), ("-0.01", Decimal("-0.01"))],
    ),
    "widest numeric": (
        "numeric(38,10)",
        "DECIMAL(38,10)",
        [(_WIDEST, Decimal(_WIDEST))],
    ),
    "free numeric": (
        "numeric",
        "DECIMAL(38,3)",
        [("1.5", Decimal("1.500")), ("-12345.678", Decimal("-12345.678"))],
    ),
    "huge numeric": ("numeric", "VARCHAR", [("1e40", "1" + "0" * 40), ("0.5", "0.5")]),
    "numeric with NaN": ("numeric(5,1)", "VARCHAR", [("NaN", "NaN"), ("1.5", "1.5")]),
    "date": (
        "date",
        "DATE",
        [("2026-02-28", date(2026, 2, 28)), ("0001-01-01", date(1, 1, 1))],
    ),
    "time": ("time", "TIME", [("23:59:59.999999", time(23, 59, 59, 999999))]),
    "timestamp": (
        "timestamp",
        "TIMESTAMP",
        [("2026-02-28 10:00:00.000001", datetime(2026, 2, 28, 10, 0, 0, 1))],
    ),
    "timestamptz": (
        "timestamptz",
        "TIMESTAMP WITH TIME ZONE",
        [("1969-12-31 23:59:59.5+02", datetime(1969, 12, 31, 21, 59, 59, 500000, UTC))],
    ),
    "text": ("text", "VARCHAR", [("", ""), ('a"b,c\nd\r\n\\N', 'a"b,c\nd\r\n\\N'), ("ñ🦆", "ñ🦆")]),
    "char": ("char(4)", "VARCHAR", [("ab", "ab")]),
    "uuid": ("uuid", "UUID", [(_UUID, uuid.UUID(_UUID)), ("0" * 32, uuid.UUID(int=0))]),
    "bytes": ("bytea", "BLOB", [("\\x00ff10", b"\x00\xff\x10"), ("", b"")]),
    "json": ("json", "JSON", [('{"b": 1,  "a": [null]}', '{"b": 1,  "a": [null]}')]),
    "jsonb": ("jsonb", "JSON", [('{"b": 1, "a": 1.50}', '{"a": 1.50, "b": 1}')]),
    "interval": ("interval", "VARCHAR", [("1 year 2 days 00:00:03.5", "1 year 2 days 00:00:03.5")]),
    "timetz": ("timetz", "VARCHAR", [("10:00:00+02", "10:00:00+02")]),
    "inet": ("inet", "VARCHAR", [("10.0.0.1/8", "10.0.0.1/8")]),
    "range": ("int4range", "VARCHAR", [("[1,5]", "[1,6)")]),
    "integers": (
        "integer[]",
        "INTEGER[]",
        [("{1,NULL,3}", [1, None, 3]), ("{}", []), ("{NULL}", [None])],
    ),
    "texts": ("text[]", "VARCHAR[]", [('{"a,b","NULL",NULL,""}', ["a,b", "NULL", None, ""])]),
    "booleans": ("boolean[]", "BOOLEAN[]", [("{t,f,NULL}", [True, False, None])]),
    "floats": ("float8[]", "DOUBLE[]", [("{0.1,-Infinity}", [0.1, -math.inf])]),
    "uuids": ("uuid[]", "UUID[]", [(f"{{{_UUID},NULL}}", [uuid.UUID(_UUID), None])]),
    "byte strings": ("bytea[]", "BLOB[]", [('{"\\\\x00ff","\\\\x"}', [b"\x00\xff", b""])]),
    "moments": (
        "timestamp[]",
        "TIMESTAMP[]",
        [('{"2026-01-01 00:00:00.25"}', [datetime(2026, 1, 1, 0, 0, 0, 250000)])],
    ),
    "matrix": ("integer[]", "VARCHAR", [("{{1,2},{3,4}}", "{{1,2},{3,4}}"), ("{1}", "{1}")]),
}


@pytest.mark.parametrize("case", CASES)
def test_values_of_every_type_are_the_same_in_the_lake(shore: Shore, case: str):
    declared, shown, values = CASES[case]
    shore.run(f"CREATE TABLE typed (id int PRIMARY KEY, v {declared})")
    for number, (text, _) in enumerate(values):
        shore.connection.execute(
            f"INSERT INTO typed VALUES (%s, %s::{declared})".encode(), [number, text]
        )
    shore.run("INSERT INTO typed VALUES (100, NULL)")

    shore.trickle.create_stream_table("copy", "SELECT id, v FROM typed", sink="ducklake")

    expected = [*((number, value) for number, (_, value) in enumerate(values)), (100, None)]
    assert shore.ask("SELECT id, v FROM copy ORDER BY id") == expected
    assert shore.ask("SELECT DISTINCT typeof(v) FROM copy WHERE v IS NOT NULL") == [(shown,)]


@pytest.mark.parametrize(
    ("declared", "text", "printed"),
    [
        ("date", "infinity", "infinity"),
        ("date", "-infinity", "-infinity"),
        ("timestamp", "infinity", "infinity"),
        ("timestamptz", "-infinity", "-infinity"),
        ("date", "4713-01-01 BC", "4713-01-01 (BC)"),
        ("time", "24:00:00", "24:00:00"),
        ("timestamp", "0044-03-15 12:00:00 BC", "0044-03-15 (BC) 12:00:00"),
    ],
)
def test_moments_that_python_cannot_show_are_the_same_for_duckdb(
    shore: Shore, declared: str, text: str, printed: str
):
    shore.run(
        f"CREATE TABLE typed (id int PRIMARY KEY, v {declared})",
        f"INSERT INTO typed VALUES (1, '{text}')",
    )
    shore.trickle.create_stream_table("copy", "SELECT id, v FROM typed", sink="ducklake")

    assert shore.ask(f"SELECT id FROM copy WHERE v = '{printed}'") == [(1,)]


def test_nan_is_nan_and_is_found(shore: Shore):
    shore.run(
        "CREATE TABLE typed (id int PRIMARY KEY, v float8)",
        "INSERT INTO typed VALUES (1, 'NaN'), (2, 1.5), (3, NULL), (4, 'Infinity')",
    )
    shore.trickle.create_stream_table("copy", "SELECT id, v FROM typed", sink="ducklake")

    assert shore.ask("SELECT id FROM copy WHERE isnan(v)") == [(1,)]
    assert shore.ask("SELECT id FROM copy WHERE v > 2 ORDER BY id") == [(1,), (4,)]


def test_last_moment_that_duckdb_cannot_hold_is_kept_as_text(shore: Shore):
    shore.run(
        "CREATE TABLE typed (a timestamp, b timestamp)",
        "INSERT INTO typed VALUES ('294276-12-31 23:59:59.999999', '294246-12-31 23:59:59.999999')",
    )
    moment = SqlType("timestamp without time zone", "timestamp", "D")

    chosen = choose_columns(
        shore.connection, [Column("a", moment), Column("b", moment)], "public.typed"
    )

    assert [column.type.name for column in chosen] == ["varchar", "timestamp"]


def test_value_that_outgrows_its_column_widens_it_and_history_stays(shore: Shore):
    shore.run(
        "CREATE TABLE typed (id int PRIMARY KEY, v numeric)", "INSERT INTO typed VALUES (1, 1.25)"
    )
    shore.trickle.create_stream_table("copy", "SELECT id, v FROM typed", sink="ducklake")
    [(before,)] = shore.ask("SELECT max(snapshot_id) FROM lake.snapshots()")
    types = []
    for number, text in enumerate(("2.5", "0.0001", "0.123456789", "1e50"), start=2):
        shore.run(f"INSERT INTO typed VALUES ({number}, {text})")
        shore.trickle.refresh_stream_table("copy")
        [(shown,)] = shore.ask("SELECT DISTINCT typeof(v) FROM copy")
        types.append(shown)

    assert types == ["DECIMAL(38,2)", "DECIMAL(38,4)", "DECIMAL(38,20)", "VARCHAR"]
    assert shore.ask("SELECT v FROM copy ORDER BY id") == [
        ("1.25",),
        ("2.5",),
        ("0.0001",),
        ("0.123456789",),
        ("1" + "0" * 50,),
    ]
    assert shore.ask(f"SELECT id, v FROM copy AT (VERSION => {before})") == [(1, Decimal("1.25"))]


def test_names_of_columns_may_be_anything(shore: Shore):
    shore.run('CREATE TABLE odd ("say ""hi""" int, "Ä ö" text, "select" int, key int, tid int)')
    shore.run("INSERT INTO odd VALUES (1, 'x', 3, 4, 5)")
    shore.trickle.create_stream_table("copy", "SELECT * FROM odd", sink="ducklake")
    shore.window(
        "copy", "INSERT INTO odd VALUES (2, 'y', 4, 5, 6)", "DELETE FROM odd WHERE key = 4"
    )

    assert shore.ask('SELECT "say ""hi""", "Ä ö", "select" FROM copy') == [(2, "y", 4)]
