"""Every common type through every kind of operator: the same values, digits and column types.

``SHAPES`` are the queries, ``TYPES`` the types with awkward values.  What the data plane cannot
hold exactly is refused by name under DIFFERENTIAL; ``NO_JOIN`` lists it, and AUTO must then be
right in another way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import pytest

from pgtrickle.errors import TrickleError, ValueOutOfRangeError
from tests.labs.lab import Lab

PREPARE = (
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'Very happy', 'it''s')",
    "CREATE DOMAIN positive AS numeric(8,2) CHECK (VALUE > 0)",
    "CREATE DOMAIN code AS varchar(5) NOT NULL DEFAULT 'x'",
    "CREATE TYPE pair AS (a int, b text)",
)


@dataclass(frozen=True)
class Case:
    type: str
    values: tuple[str, ...]
    equality: bool = True  # GROUP BY, DISTINCT and joins are possible
    order: bool = True  # min and max exist
    null: str = "NULL"


TYPES = {
    "int2": Case("smallint", ("-32768", "0", "32767")),
    "int4": Case("integer", ("-2147483648", "0", "2147483647")),
    "int8": Case("bigint", ("-9223372036854775808", "0", "9223372036854775807")),
    "numeric": Case(
        "numeric", ("1.0", "1.00", "-0.000001", "12345678901234567890.123", "0", "1e20")
    ),
    "numeric_huge": Case("numeric", ("1e1000", "-1e-1000", "1e1000 + 1", "0.1")),
    "numeric_special": Case("numeric", ("NaN", "Infinity", "-Infinity", "1.5")),
    "numeric_sized": Case("numeric(10,2)", ("99999999.99", "-0.01", "0", "5.10")),
    "numeric_wide": Case("numeric(60,5)", ("12345678901234567890123456789012345678901.12345", "1")),
    "numeric_negative_scale": Case("numeric(5,-2)", ("1234500", "-100", "0")),
    "numeric_sized_nan": Case("numeric(10,2)", ("NaN", "1.25")),
    "float4": Case("real", ("1.1", "3.4e38", "-0.0", "0.0", "NaN", "Infinity", "1e-40")),
    "float8": Case("float8", ("0.1", "1.7e308", "-0.0", "0.0", "NaN", "-Infinity", "5e-324")),
    "text": Case(
        "text",
        ("", " ", "a", "A", "é", "日本語 😀", "quote '' and \"", "back\\slash", "two\nlines\r\n",
         "\\N",
         "tab\tcomma,", "NULL", "a,b\"c", "e\u0301"),
    ),
    "varchar": Case("varchar(5)", ("", "abcde", "é  ", "ab")),
    "char": Case("char(5)", ("", "ab", "abcde", "é")),
    "bpchar": Case("bpchar", ("ab", "ab  ", "abc")),
    "bool": Case("boolean", ("true", "false"), order=False),
    "date": Case("date", ("2026-02-28", "4713-01-01 BC", "5874897-12-31", "infinity", "-infinity")),
    "timestamp": Case(
        "timestamp",
        ("2026-01-01 00:00:00.000001", "4713-01-01 00:00 BC", "294246-12-31 23:59:59.999999",
         "infinity", "-infinity", "1969-12-31 23:59:59.999999"),
    ),
    "timestamptz": Case(
        "timestamptz",
        ("2026-01-01 00:00:00.000001+14", "0001-01-01 00:00+00 BC", "infinity", "-infinity"),
    ),
    "timestamp_sized": Case("timestamp(0)", ("2026-01-01 00:00:00.5", "2026-01-01")),
    "time": Case("time", ("00:00", "23:59:59.999999", "24:00")),
    "timetz": Case("timetz", ("00:00+00", "12:00-08", "04:00-15")),
    "interval": Case(
        "interval", ("1 day", "24 hours", "1 mon", "30 days", "-178000000 years", "0.000001 s")
    ),
    "uuid": Case("uuid", ("00000000-0000-0000-0000-000000000000", "F" * 32), order=False),
    "json": Case(
        "json", ('{"a": 1}', '{"a":1}', '[1, 2.50, "\\u00e9"]', "null"), equality=False, order=False
    ),
    "jsonb": Case("jsonb", ('{"a": 1}', '{"a": 1.0}', '[1, null, "\\\\"]', "null"), order=False),
    "int_array": Case("int[]", ("{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={1,2}")),
    "text_array": Case("text[]", ('{a,NULL,"NULL","","a,b","c\\"d","{}"}', "{}", "{é}")),
    "numeric_array": Case("numeric[]", ("{1.0,1.00,NULL}", "{1.00,1.0,NULL}", "{NaN}")),
    "enum": Case("mood", ("sad", "ok", "Very happy", "it''s")),
    "bytea": Case("bytea", ("\\x", "\\x00ff", "\\x5c27")),
    "domain_numeric": Case("positive", ("0.01", "5.1")),
    "domain_text": Case("code", ("", "ab"), null="''"),
    "inet": Case("inet", ("10.0.0.1", "10.0.0.1/24", "::1")),
    "composite": Case("pair", ("(1,a)", "(,)", '(2,"x,""y")'), order=False),
    "bit": Case("bit(3)", ("101", "000"), order=False),
    "money": Case("money", ("1.50", "-3"), order=True),
    "oid": Case("oid", ("0", "4294967295")),
    "int4range": Case("int4range", ("[1,5)", "empty", "(,3]"), order=False),
    "point": Case("point", ("(1,2)", "(0,0)"), equality=False, order=False),
}  # fmt: skip

SHAPES = {
    "passed": "SELECT id, v FROM src",
    "joined": "SELECT s.id, s.v, d.w FROM src AS s JOIN dim AS d ON d.k = s.k",
    "grouped": "SELECT v, count(*) AS n FROM src GROUP BY v",
    "kinds": "SELECT DISTINCT s.v, d.w FROM src AS s JOIN dim AS d ON d.k = s.k",
    "matched": "SELECT a.id AS one, b.id AS two, b.v FROM src AS a JOIN src AS b ON b.v = a.v",
    "extremes": "SELECT k, min(v) AS low, max(v) AS high, count(DISTINCT v) AS n"
    " FROM src GROUP BY k",
}
NEEDS_EQUALITY = {"grouped", "kinds", "matched", "extremes"}


def shown_types(lab: Lab, relation: str) -> list[tuple[str, str]]:
    return lab.connection.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY attnum",
        [relation],
    ).fetchall()


def load(lab: Lab, case: Case) -> None:
    lab.run(*PREPARE)
    lab.run(f"CREATE TABLE src (id int, k int, v {case.type})")
    lab.run("CREATE TABLE dim (k int, w text)", "INSERT INTO dim VALUES (0, 'even'), (1, 'odd')")
    insert(lab, case, 0)


def insert(lab: Lab, case: Case, first: int) -> None:
    for i, value in enumerate(case.values, first):
        literal = (
            f"({value})"
            if " + " in value
            else "'" + value.replace("''", "'").replace("'", "''") + "'"
        )
        lab.run(f"INSERT INTO src VALUES ({i}, {i % 2}, {literal}::{case.type})")


def unlike(lab: Lab, name: str, query: str) -> list[tuple[object, ...]]:
    """Return the difference, by text where every digit counts, else by PostgreSQL's equality."""
    one, other = f"SELECT * FROM ({query}) AS q", f"SELECT * FROM {name}"
    if name not in NEEDS_EQUALITY:
        one, other = f"SELECT q::text FROM ({query}) AS q", f"SELECT t::text FROM {name} AS t"
    return lab.rows(f"(({one}) EXCEPT ALL ({other})) UNION ALL (({other}) EXCEPT ALL ({one}))")


def create(lab: Lab, name: str, query: str) -> str:
    """Create a stream table, under AUTO if need be; return the code of the refusal, or nothing."""
    try:
        lab.trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    except TrickleError as error:
        lab.trickle.create_stream_table(name, query, refresh_mode="AUTO")
        return error.code
    return ""


def change(lab: Lab, case: Case) -> None:
    insert(lab, case, 100)
    lab.run(
        "INSERT INTO src SELECT id + 200, k, v FROM src WHERE id > 1",
        "DELETE FROM src WHERE id IN (1, 101)",
        "UPDATE src SET v = (SELECT v FROM src WHERE id = 100) WHERE id IN (2, 102)",
        f"INSERT INTO src VALUES (500, 0, {case.null}), (501, 1, {case.null})",
    )


def shapes(case: Case, wanted: Collection[str]) -> dict[str, str]:
    return {
        name: query
        for name, query in SHAPES.items()
        if name in wanted
        and (case.equality or name not in NEEDS_EQUALITY)
        and (case.order or name != "extremes")
    }


# A value is too large for Spark's decimals.
NO_JOIN = dict.fromkeys(
    ("numeric_huge", "numeric_special", "numeric_wide", "numeric_sized_nan"), "ST405"
)


NO_GROUPS = {"composite": {"grouped": "ST102", "kinds": "ST102"}}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_type_survives(lab: Lab, name: str):
    survive(lab, name, SHAPES)


def survive(lab: Lab, name: str, wanted: Collection[str]) -> None:
    """Pass one type's values through the wanted shapes, changed once, and compare."""
    case = TYPES[name]
    queries = shapes(case, wanted)
    load(lab, case)

    refused = {shape: create(lab, shape, query) for shape, query in queries.items()}
    differing = {shape: unlike(lab, shape, query) for shape, query in queries.items()}
    change(lab, case)
    reports = {shape: lab.trickle.refresh_stream_table(shape) for shape in queries}
    later = {shape: unlike(lab, shape, query) for shape, query in queries.items()}

    assert differing == later == {shape: [] for shape in queries}
    expected = {"matched": NO_JOIN.get(name, ""), **NO_GROUPS.get(name, {})}
    assert refused == {shape: expected.get(shape, "") for shape in queries}
    assert {shape: one.action.value for shape, one in reports.items()} == {
        shape: "FULL" if refused[shape] else "DIFFERENTIAL" for shape in queries
    }
    for shape, query in queries.items():
        lab.run(f"CREATE VIEW view_{shape} AS {query}")
        assert shown_types(lab, shape) == shown_types(lab, f"view_{shape}")
        assert lab.trickle.verify_stream_table(shape).ok


@pytest.mark.parametrize("type_", ["timestamp", "timestamptz"])
def test_timestamps_beyond_the_range_of_spark_are_refused_by_name(lab: Lab, type_: str):
    load(lab, Case(type_, ("294276-12-31 23:59:59.999999+00",)))

    for query in SHAPES.values():
        with pytest.raises(ValueOutOfRangeError, match="294246"):
            lab.trickle.create_stream_table("made", query)
    assert lab.leftovers() == []


def test_composite_keys_are_equal_where_their_fields_are(lab: Lab):
    lab.run("CREATE TYPE price AS (n numeric)", "CREATE TABLE src (id int, v price)")
    lab.run("INSERT INTO src VALUES (1, '(1.0)'), (2, '(2)')")
    lab.create("grouped", "SELECT v, count(*) AS n FROM src GROUP BY v", mode="AUTO")

    lab.window("INSERT INTO src VALUES (3, '(1.00)')", action="FULL")
    lab.window("DELETE FROM src WHERE id = 1", action="FULL")
