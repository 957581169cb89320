"""Every common type through every kind of operator: the same values, digits and column types.

``SHAPES`` are the queries, ``TYPES`` the types with awkward values.  What the data plane cannot
hold exactly is refused by name under DIFFERENTIAL; ``REFUSED`` lists it, and AUTO must then be
right by another way.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from pgtrickle.errors import TrickleError
from tests.service.lab import Lab

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
    "numeric_wide": Case("numeric(60,5)", ("123456789012345678901234567890123456789012.12345", "1")),
    "numeric_negative_scale": Case("numeric(5,-2)", ("1234500", "-100", "0")),
    "numeric_sized_nan": Case("numeric(10,2)", ("NaN", "1.25")),
    "float4": Case("real", ("1.1", "3.4e38", "-0.0", "0.0", "NaN", "Infinity", "1e-40")),
    "float8": Case("double precision", ("0.1", "1.7e308", "-0.0", "0.0", "NaN", "-Infinity", "5e-324")),
    "text": Case(
        "text",
        ("", " ", "a", "A", "é", "日本語 😀", "quote '' and \"", "back\\slash", "two\nlines\r\n", "\\N",
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
    "timestamp_last": Case("timestamp", ("294276-12-31 23:59:59.999999", "2026-01-01")),
    "timestamptz": Case(
        "timestamptz",
        ("2026-01-01 00:00:00.000001+14", "0001-01-01 00:00+00 BC", "infinity", "-infinity"),
    ),
    "timestamptz_last": Case("timestamptz", ("294276-12-31 23:59:59.999999+00", "2026-01-01+00")),
    "timestamp_sized": Case("timestamp(0)", ("2026-01-01 00:00:00.5", "2026-01-01")),
    "time": Case("time", ("00:00", "23:59:59.999999", "24:00")),
    "timetz": Case("timetz", ("00:00+00", "12:00-08", "04:00-16")),
    "interval": Case(
        "interval", ("1 day", "24 hours", "1 mon", "30 days", "-178000000 years", "0.000001 s")
    ),
    "uuid": Case("uuid", ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"), order=False),
    "json": Case("json", ('{"a": 1}', '{"a":1}', '[1, 2.50, "x\\u00e9"]', "null"), equality=False, order=False),
    "jsonb": Case("jsonb", ('{"a": 1}', '{"a": 1.0}', '[1, null, "\\\\"]', "null"), order=False),
    "int_array": Case("int[]", ("{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:1]={1,2}")),
    "text_array": Case("text[]", ('{a,NULL,"NULL","","a,b","c\\"d","{}"}', "{}", "{é}")),
    "numeric_array": Case("numeric[]", ("{1.0,1.00,NULL}", "{1.00,1.0,NULL}", "{NaN}")),
    "enum": Case("mood", ("sad", "ok", "Very happy", "it''s")),
    "bytea": Case("bytea", ("\\x", "\\x00ff", "\\x5c27")),
    "domain_numeric": Case("positive", ("0.01", "5.1")),
    "domain_text": Case("code", ("", "ab")),
    "inet": Case("inet", ("10.0.0.1", "10.0.0.1/24", "::1")),
    "composite": Case("pair", ("(1,a)", "(,)", '(2,"x,""y")'), order=False),
    "bit": Case("bit(3)", ("101", "000"), order=False),
    "money": Case("money", ("1.50", "-3"), order=True),
    "oid": Case("oid", ("0", "4294967295")),
    "int4range": Case("int4range", ("[1,5)", "empty", "(,3]")),
    "point": Case("point", ("(1,2)", "(0,0)"), equality=False, order=False),
    "xml": Case("xml", ("<a/>", "<b>&lt;</b>"), equality=False, order=False),
}  # fmt: skip

SHAPES = {
    "passed": "SELECT id, v FROM src",
    "joined": "SELECT s.id, s.v, d.w FROM src AS s JOIN dim AS d ON d.k = s.k",
    "grouped": "SELECT v, count(*) AS n FROM src GROUP BY v",
    "kinds": "SELECT DISTINCT s.v, d.w FROM src AS s JOIN dim AS d ON d.k = s.k",
    "matched": "SELECT a.id AS one, b.id AS two, b.v FROM src AS a JOIN src AS b ON b.v = a.v",
    "extremes": "SELECT k, min(v) AS low, max(v) AS high, count(DISTINCT v) AS n FROM src GROUP BY k",
}
NEEDS_EQUALITY = {"grouped", "kinds", "matched", "extremes"}
_ALL = [
    (name, shape)
    for name, case in TYPES.items()
    for shape in SHAPES
    if (case.equality or shape not in NEEDS_EQUALITY) and (case.order or shape != "extremes")
]


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
        literal = f"({value})" if " + " in value else "'" + value.replace("''", "'").replace("'", "''") + "'"
        lab.run(f"INSERT INTO src VALUES ({i}, {i % 2}, {literal}::{case.type})")


def unlike(lab: Lab, name: str, query: str, *, as_text: bool) -> list[tuple[object, ...]]:
    """Return the difference, by text where every digit counts, else by PostgreSQL's equality."""
    one, other = f"SELECT * FROM ({query}) AS q", f"SELECT * FROM {name}"
    if as_text:
        one, other = f"SELECT q::text FROM ({query}) AS q", f"SELECT t::text FROM {name} AS t"
    return lab.rows(f"(({one}) EXCEPT ALL ({other})) UNION ALL (({other}) EXCEPT ALL ({one}))")


def create(lab: Lab, query: str) -> str:
    """Create the table; return the action that later refreshes are to have."""
    try:
        lab.trickle.create_stream_table("made", query, refresh_mode="DIFFERENTIAL")
    except TrickleError as error:
        assert error.code in {"ST102", "ST106", "ST405"}, error
        lab.trickle.create_stream_table("made", query, refresh_mode="AUTO")
        return error.code
    return "DIFFERENTIAL"


REFUSED: dict[tuple[str, str], str] = {}


@pytest.mark.parametrize(("name", "shape"), _ALL)
def test_type_survives(lab: Lab, name: str, shape: str):
    case, query = TYPES[name], SHAPES[shape]
    load(lab, case)
    as_text = shape in {"passed", "joined"}

    how = create(lab, query)
    lab.run(f"CREATE VIEW shown AS {query}")
    assert shown_types(lab, "made") == shown_types(lab, "shown")
    assert unlike(lab, "made", query, as_text=as_text) == []

    insert(lab, case, 100)
    lab.run("INSERT INTO src SELECT id + 200, k, v FROM src WHERE id > 1")
    lab.run("DELETE FROM src WHERE id IN (1, 101)")
    lab.run("UPDATE src SET v = (SELECT v FROM src WHERE id = 100) WHERE id IN (2, 102)")
    lab.run("UPDATE src SET v = NULL WHERE id = 0") if name != "domain_text" else None
    report = lab.trickle.refresh_stream_table("made")

    assert unlike(lab, "made", query, as_text=as_text) == []
    assert how == REFUSED.get((name, shape), "DIFFERENTIAL")
    assert report.action.value == ("DIFFERENTIAL" if how == "DIFFERENTIAL" else "FULL")
    assert lab.trickle.verify_stream_table("made").ok
