"""Every type survives PostgreSQL -> Arrow -> Spark -> Arrow -> CSV -> PostgreSQL."""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pytest

from pgtrickle.errors import ValueOutOfRangeError
from pgtrickle.model.sql_type import SqlType
from pgtrickle.spark.run_stage import run
from pgtrickle.spark.sessions.pair import SparkSessions
from pgtrickle.transit.arrow_reader import ReadConnections, SnapshotReader
from pgtrickle.transit.carriers import Carrier, Use, carrier_for
from pgtrickle.transit.copy_csv import arrow_to_csv
from pgtrickle.transit.decimal_size import decimal_size, decimals_from_text, probe_sql
from tests.spark.exported_snapshot import exported_snapshot

_MOMENTS = (
    "2024-02-29 12:34:56.789012",
    "infinity",
    "-infinity",
    "0001-01-01 00:00:00",
    "4713-01-01 00:00:00.000001 BC",
    "0001-12-31 23:59:59 BC",
    "9999-12-31 23:59:59.999999",
    "10000-01-01 00:00:00",
    "294246-12-31 23:59:59.999999",
)
_STRINGS = ("", "a", "  b ", "\\N", "\\.", 'say "x"', "a,b", "line\nbreak\r\n", "é€😀", "NULL", "'")

VALUES: dict[SqlType, tuple[str, ...]] = {
    SqlType("smallint", "int2", "N"): ("-32768", "32767", "0"),
    SqlType("integer", "int4", "N"): ("-2147483648", "2147483647"),
    SqlType("bigint", "int8", "N"): ("-9223372036854775808", "9223372036854775807"),
    SqlType("oid", "oid", "N"): ("0", "4294967295"),
    SqlType("real", "float4", "N"): ("NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e38"),
    SqlType("double precision", "float8", "N"): ("NaN", "Infinity", "-0", "5e-324", "0.1", "1e22"),
    SqlType("boolean", "bool", "B"): ("true", "false"),
    SqlType("text", "text", "S", collation="default"): _STRINGS,
    SqlType("character varying(20)", "varchar", "S", collation="C"): _STRINGS,
    SqlType("character(5)", "bpchar", "S", collation="C"): ("", "ab", "  c"),
    SqlType("bpchar", "bpchar", "S", collation="C"): ("ab", "x"),
    SqlType("name", "name", "S", collation="C"): ("pg_class", ""),
    SqlType("date", "date", "D"): (
        *("2024-02-29", "infinity", "-infinity", "0001-01-01", "4713-01-01 BC", "0001-01-01 BC"),
        *("9999-12-31", "10000-01-01", "5874897-12-31", "2001-02-28 BC"),
    ),
    SqlType("timestamp without time zone", "timestamp", "D"): _MOMENTS,
    SqlType("timestamp with time zone", "timestamptz", "D"): _MOMENTS,
    SqlType("numeric(12,2)", "numeric", "N", 12, 2): ("0", "-0.01", "9999999999.99"),
    SqlType("numeric(38,38)", "numeric", "N", 38, 38): (
        "0." + "9" * 38,
        "0",
        "0." + "0" * 37 + "1",
    ),
    SqlType("numeric(38,0)", "numeric", "N", 38, 0): ("9" * 38, "-" + "9" * 38),
    SqlType("numeric(5,-2)", "numeric", "N", 5, -2): ("1234567", "-99999"),
    SqlType("numeric(2,4)", "numeric", "N", 2, 4): ("0.0099", "-0.0001"),
    SqlType("numeric", "numeric", "N"): ("1.50", "0.000000000000001", "-12345678901234567890"),
    SqlType("time without time zone", "time", "D"): ("00:00", "24:00", "23:59:59.999999"),
    SqlType("time with time zone", "timetz", "D"): ("12:00+02", "12:00-05:30", "24:00+00"),
    SqlType("interval", "interval", "T"): ("1 mon -3 days 04:05:06.789", "-1 day", "178000000 y"),
    SqlType("uuid", "uuid", "U"): ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",),
    SqlType("json", "json", "U"): ('{"a":  1, "a": 2}', "null", '"\\u00e9\\n"'),
    SqlType("jsonb", "jsonb", "U"): ('{"a": 1.00}', "[]", '"x,\\"y"'),
    SqlType("bytea", "bytea", "U"): ("\\x", "\\x00ff5c22"),
    SqlType("integer[]", "_int4", "A"): ("{}", "{1,NULL,3}", "[2:3]={1,2}"),
    SqlType("text[]", "_text", "A"): ('{"","a,b","NULL",NULL}',),
    SqlType("numeric[]", "_numeric", "A"): ("{1.0,1.00}",),
    SqlType("inet", "inet", "I"): ("10.0.0.1", "10.0.0.0/8", "::ffff:1.2.3.4"),
    SqlType("int4range", "int4range", "R"): ("[1,5)", "empty", "(,)"),
    SqlType("money", "money", "N"): ("-1.50",),
    SqlType("point", "point", "G"): ("(1.5,-2)",),
    SqlType("bit varying", "varbit", "V"): ("101", ""),
    SqlType("mood", "mood", "E"): ("sad", "very happy"),
    SqlType("pair", "pair", "C"): ('(1,"a b")', "(,)"),
}


def _parameters() -> list[object]:
    return [
        pytest.param(sql_type, use, values, id=f"{sql_type.display}-{use.value}")
        for sql_type, values in VALUES.items()
        for use in (Use.PASS, Use.COMPARE)
    ]


def _make_table(dsn: str, sql_type: SqlType, values: tuple[str, ...]) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'very happy')")
        connection.execute("CREATE TYPE pair AS (a int, b text)")
        connection.execute(f"CREATE TABLE before (n int, v {sql_type.display})")
        connection.execute(f"CREATE TABLE after (n int, v {sql_type.display})")
        connection.cursor().executemany(
            f"INSERT INTO before VALUES (%s, (%s::text)::{sql_type.display})"
            if sql_type.base != "pair"
            else "INSERT INTO before VALUES (%s, %s::pair)",
            list(enumerate([*values, None])),
        )


def _read(dsn: str, carrier: Carrier) -> pa.Table:
    number = carrier_for(SqlType("integer", "int4", "N"))
    connections = ReadConnections(dsn)
    with exported_snapshot(dsn) as snapshot, SnapshotReader(connections, snapshot) as reader:
        table = reader.read(
            f"SELECT n, {carrier.read_sql('v')} AS v FROM public.before", [number, carrier]
        )
    connections.close()
    return table


def _differences(dsn: str, shown: str) -> list[tuple[object, ...]]:
    compare = (
        f"SELECT n, b.v::text, a.v::text FROM before b FULL JOIN after a USING (n) "
        f"WHERE b.{shown} IS DISTINCT FROM a.{shown}"
    )
    with psycopg.connect(dsn) as connection:
        return connection.execute(compare).fetchall()


def _copy_back(dsn: str, table: pa.Table) -> None:
    with (
        psycopg.connect(dsn, options="-c timezone=Asia/Tokyo") as connection,
        connection.cursor().copy("COPY after FROM STDIN (FORMAT csv)") as copy,
    ):
        copy.write(arrow_to_csv(table))


@pytest.mark.parametrize(("sql_type", "use", "values"), _parameters())
def test_every_value_comes_back_as_it_was(
    database: str,
    spark_sessions: SparkSessions,
    sql_type: SqlType,
    use: Use,
    values: tuple[str, ...],
) -> None:
    _make_table(database, sql_type, values)
    read = _read(database, carrier_for(sql_type, use))

    result = run(spark_sessions.small(), {"t": read}, "SELECT * FROM {t}")
    _copy_back(database, result)

    # An unsized numeric that is compared takes one scale for the whole column: equal, not alike.
    rescaled = use is Use.COMPARE and sql_type.display == "numeric"
    assert result.schema == read.schema
    assert _differences(database, "v" if rescaled else "v::text") == []


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e38", "1e-39"])
def test_a_numeric_that_no_decimal_holds_is_refused_by_name(database: str, value: str) -> None:
    _make_table(database, SqlType("numeric", "numeric", "N"), (value, "1"))

    with pytest.raises(ValueOutOfRangeError, match='column "v"') as caught:
        _read(database, carrier_for(SqlType("numeric", "numeric", "N")))

    assert caught.value.hint


def test_a_nan_in_a_sized_numeric_is_refused_by_name(database: str) -> None:
    sized = SqlType("numeric(12,2)", "numeric", "N", 12, 2)
    _make_table(database, sized, ("NaN",))

    with pytest.raises(ValueOutOfRangeError, match='column "v"'):
        _read(database, carrier_for(sized))


@pytest.mark.parametrize("base", ["timestamp", "timestamptz"])
@pytest.mark.parametrize("use", [Use.PASS, Use.COMPARE])
def test_a_timestamp_after_the_last_one_of_spark_is_refused(
    database: str, base: str, use: Use
) -> None:
    sql_type = SqlType(base, base, "D")
    _make_table(database, sql_type, ("294276-12-31 23:59:59.999999", "infinity"))

    with pytest.raises(ValueOutOfRangeError, match="294246"):
        _read(database, carrier_for(sql_type, use))


@pytest.mark.parametrize("base", ["date", "timestamp", "timestamptz"])
def test_infinity_is_refused_where_it_would_be_computed_with(database: str, base: str) -> None:
    sql_type = SqlType(base, base, "D")
    _make_table(database, sql_type, ("infinity", "2024-01-01"))

    with pytest.raises(ValueOutOfRangeError, match="infinite"):
        _read(database, carrier_for(sql_type, Use.COMPUTE))


@pytest.mark.parametrize("base", ["date", "timestamp", "timestamptz"])
def test_infinities_keep_their_place_in_the_order(
    database: str, spark_sessions: SparkSessions, base: str
) -> None:
    sql_type = SqlType(base, base, "D")
    values = ("infinity", "2024-01-01", "-infinity", "4713-01-01 BC")
    _make_table(database, sql_type, values)
    read = _read(database, carrier_for(sql_type))

    ordered = run(
        spark_sessions.small(), {"t": read}, "SELECT n FROM {t} WHERE v IS NOT NULL ORDER BY v"
    )

    assert ordered.column("n").to_pylist() == [2, 3, 1, 0]


def test_decimal_takes_the_smallest_size_that_holds_all_values() -> None:
    assert decimals_from_text(pa.chunked_array([["0.5", "12", None]]), "v").type == pa.decimal128(
        3, 1
    )
    assert decimals_from_text(pa.chunked_array([[None]], pa.string()), "v").null_count == 1
    assert decimals_from_text(pa.chunked_array([], pa.string()), "v").type == pa.decimal128(1, 0)


def test_probe_finds_the_digits_in_postgres(database: str) -> None:
    _make_table(database, SqlType("numeric", "numeric", "N"), ("123.4567", "-99999"))

    with psycopg.connect(database) as connection:
        found = connection.execute(probe_sql(["v", "v + 1"], "before")).fetchone()

    assert found == ("-99999", "123.4567", 4, "-99998", "124.4567", 4)
    assert decimal_size(*found[:3], column="v") == (9, 4)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_probe_sees_what_is_no_number(database: str, value: str) -> None:
    _make_table(database, SqlType("numeric", "numeric", "N"), ("1.5", value, "-2"))

    with psycopg.connect(database) as connection:
        found = connection.execute(probe_sql(["v"], "before")).fetchone()

    assert found is not None
    with pytest.raises(ValueOutOfRangeError, match="holds NaN or Infinity"):
        decimal_size(*found, column="v")


def test_more_digits_than_a_decimal_has_are_refused() -> None:
    assert decimal_size("-1" + "0" * 27, "5.25", 10, column="v") == (38, 10)
    with pytest.raises(ValueOutOfRangeError, match="39 digits"):
        decimal_size("-1" + "0" * 28, "5.25", 10, column="v")


def test_text_is_ordered_like_postgres_only_under_byte_order() -> None:
    assert carrier_for(SqlType("text", "text", "S", collation="C")).order_faithful
    assert not carrier_for(SqlType("text", "text", "S", collation="de-x-icu")).order_faithful


def test_types_whose_equal_values_print_differently_are_not_equality_faithful() -> None:
    unfaithful = [
        SqlType("jsonb", "jsonb", "U"),
        SqlType("interval", "interval", "T"),
        SqlType("numeric[]", "_numeric", "A"),
        SqlType("citext", "citext", "S"),
    ]

    assert not any(carrier_for(sql_type).equality_faithful for sql_type in unfaithful)
