"""Nested values that DuckDB keeps in the catalog as text come back as they were inserted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.lake.reader.nested_text import parse_nested
from pgtrickle.lake.reader.open import LakeRead, describe, plan
from tests.lake.workshop import Workshop

_MARKS = "',\"\\[]{}()=: \t\nNUL"
_NAMES = st.sampled_from(["a", "b c", "it's", 'q"q', "x:y", "NULL", "ä"])


@dataclass(frozen=True)
class Kind:
    """A type of DuckDB with its parts."""

    name: str  # of a scalar, or list, map, struct
    parts: tuple[tuple[str, Kind], ...] = ()

    @property
    def sql(self) -> str:
        """The type as DuckDB writes it."""
        parts = [part.sql for _, part in self.parts]
        match self.name:
            case "list":
                return f"{parts[0]}[]"
            case "map":
                return f"MAP({parts[0]}, {parts[1]})"
            case "struct":
                named = [f"{_quoted(name)} {part.sql}" for name, part in self.parts]
                return f"STRUCT({', '.join(named)})"
            case _:
                return self.name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(kind: Kind, value: Any) -> str:
    """Return a value as SQL."""
    if value is None:
        return f"NULL::{kind.sql}"
    parts = [part for _, part in kind.parts]
    match kind.name:
        case "list":
            return f"[{', '.join(_literal(parts[0], one) for one in value)}]::{kind.sql}"
        case "map":
            pairs = [f"{_literal(parts[0], k)}: {_literal(parts[1], v)}" for k, v in value]
            return f"MAP {{{', '.join(pairs)}}}::{kind.sql}"
        case "struct":
            fields = [f"{_text(name)}: {_literal(part, value[name])}" for name, part in kind.parts]
            return f"{{{', '.join(fields)}}}"
        case "BLOB":
            return f"unhex('{value.hex()}')"
        case _:
            return f"{_text(str(value))}::{kind.name}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


_MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
# PostgreSQL has no text with the character 0, and DuckDB fails to insert it.
_STRINGS = st.text(
    st.one_of(st.sampled_from(_MARKS), st.characters(exclude_characters="\0", codec="utf-8"))
)
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "VARCHAR": st.one_of(_STRINGS, st.sampled_from(["NULL", "null", "", "CAST('a' AS VARCHAR)"])),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "UBIGINT": st.integers(0, 2**64 - 1),
    "DOUBLE": st.floats(),
    "FLOAT": st.floats(width=32),
    "DECIMAL(10,2)": st.decimals(-99999999, 99999999, places=2),
    "BOOLEAN": st.booleans(),
    "BLOB": st.one_of(st.binary(max_size=6), st.text("'\\,x0]} N", max_size=6).map(str.encode)),
    "DATE": st.dates(),
    "TIMESTAMP": _MOMENTS,
    "TIMESTAMPTZ": _MOMENTS.map(lambda one: one.replace(tzinfo=UTC)),
    "UUID": st.uuids().map(str),
}
_KEYS = st.sampled_from(["VARCHAR", "INTEGER", "DATE", "BLOB"]).map(Kind)


def _nest(kinds: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    fields = st.lists(st.tuples(_NAMES, kinds), min_size=1, max_size=3, unique_by=lambda f: f[0])
    return st.one_of(
        kinds.map(lambda part: Kind("list", (("element", part),))),
        st.tuples(_KEYS, kinds).map(lambda two: Kind("map", (("key", two[0]), ("value", two[1])))),
        fields.map(lambda named: Kind("struct", tuple(named))),
    )


_LEAVES = st.sampled_from(sorted(_SCALARS)).map(Kind)
_KINDS = _nest(st.recursive(_LEAVES, _nest, max_leaves=4))


def _values(kind: Kind, *, literal: bool) -> st.SearchStrategy[Any]:
    """Return the values of a kind; ``literal`` says that no list or map is around."""
    parts = [part for _, part in kind.parts]
    some: st.SearchStrategy[Any]
    match kind.name:
        case "list":
            some = st.lists(_values(parts[0], literal=False), max_size=4)
        case "map":
            keys = _values(parts[0], literal=False).filter(lambda key: key is not None)
            value = _values(parts[1], literal=False)
            some = st.lists(st.tuples(keys, value), max_size=3, unique_by=lambda pair: pair[0])
        case "struct":
            named = {name: _values(part, literal=literal) for name, part in kind.parts}
            some = st.fixed_dictionaries(named)
        case "VARCHAR" if literal:
            some = _SCALARS["VARCHAR"].filter(lambda text: "\\" not in text)
        case _:
            some = _SCALARS[kind.name]
    return st.one_of(some, st.none())


@st.composite
def _tables(draw: st.DrawFn) -> tuple[Kind, list[Any]]:
    kind = draw(_KINDS)
    literal = kind.name == "struct"
    return kind, draw(st.lists(_values(kind, literal=literal), min_size=1, max_size=6))


def _read(workshop: Workshop, table: str) -> list[Any]:
    options = {"dsn": workshop.connection.info.dsn, "catalog_schema": "lake", "table": table}
    read = LakeRead.from_options(options)
    scan = plan(read, *describe(read), ())
    assert not scan.files
    rows = [row for batch in scan.inlined for row in batch.to_pylist()]
    return [row["v"] for row in sorted(rows, key=lambda row: row["id"])]


@contextmanager
def _by_duckdb(workshop: Workshop) -> Iterator[None]:
    """Leave out a case in which DuckDB fails by a mistake of its own, and count it.

    It says of them that they are internal.  Its session is of no use after one: every later
    statement of it would fail too, also those of other cases.
    """
    try:
        yield
    except (duckdb.InternalException, duckdb.FatalException) as error:
        event(f"DuckDB failed by itself: {str(error).splitlines()[0][:80]}")
        workshop.renew_client()
        reject()


def _insert(workshop: Workshop, table: str, kind: Kind, values: Sequence[Any]) -> None:
    workshop.rows(f"CREATE TABLE {table} (id INT, v {kind.sql})")
    rows = [f"({number}, {_literal(kind, value)})" for number, value in enumerate(values)]
    workshop.rows(f"INSERT INTO {table} VALUES {', '.join(rows)}")


def _plain(kind: Kind, value: Any) -> Any:
    """Return a value so that equals are equal: NaN, 0 and -0, and what drivers call by types."""
    if value is None:
        return None
    parts = [part for _, part in kind.parts]
    match kind.name:
        case "list":
            return [_plain(parts[0], one) for one in value]
        case "map":
            return [(_plain(parts[0], k), _plain(parts[1], v)) for k, v in value]
        case "struct":
            return {name: _plain(part, value[name]) for name, part in kind.parts}
        case "DOUBLE" | "FLOAT":
            return repr(value)
        case "UUID":
            return str(value)
        case "UBIGINT":
            return int(value)
        case "BLOB":
            return bytes(value)
        case _:
            return value


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_tables())
def test_nested_values_in_the_catalog_are_read_as_they_were_inserted(
    workshop: Workshop, table: tuple[Kind, list[Any]]
):
    kind, values = table
    name = f"t_{uuid.uuid4().hex}"
    with _by_duckdb(workshop):
        _insert(workshop, name, kind, values)

    read = _read(workshop, name)

    expected = [_plain(kind, value) for value in values]
    assert [_plain(kind, value) for value in read] == expected
    if kind.name != "struct":  # see below
        query = f"SELECT v FROM {name} ORDER BY id"
        with _by_duckdb(workshop):
            own = workshop.client.execute(query).to_arrow_table().column(0).to_pylist()
        assert [_plain(kind, value) for value in own] == expected
    workshop.rows(f"DROP TABLE {name}")


@settings(
    max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from([duckdb.InternalException, duckdb.FatalException]))
def test_a_failure_of_duckdb_itself_is_left_out_and_the_next_case_goes_on(
    workshop: Workshop, failure: type[duckdb.Error]
):
    before = workshop.client

    with pytest.raises(UnsatisfiedAssumption), _by_duckdb(workshop):
        raise failure("INTERNAL Error: Attempted to access index 0 within vector of size 0")

    assert workshop.client is not before
    assert workshop.rows("SELECT 1") == [(1,)]


@pytest.mark.parametrize("failure", [duckdb.ConversionException, LakeReadError, AssertionError])
def test_every_other_failure_is_a_failure(workshop: Workshop, failure: type[Exception]):
    with pytest.raises(failure), _by_duckdb(workshop):
        raise failure("ours, or in what we asked for")


@pytest.mark.parametrize(
    ("type_", "inserted", "value", "own"),
    [
        ("STRUCT(s VARCHAR)", "{'s': 'it''s'}", {"s": "it's"}, {"s": "its"}),
        ("STRUCT(b BLOB)", "{'b': 'ab'::BLOB}", {"b": b"ab"}, {"b": b"CAST('ab' AS VARCHAR)"}),
    ],
)
def test_structs_that_duckdb_misreads_are_read_as_they_were_inserted(
    workshop: Workshop, type_: str, inserted: str, value: object, own: object
):
    workshop.rows(f"CREATE TABLE t (id INT, v {type_})")
    workshop.rows(f"INSERT INTO t VALUES (1, {inserted})")

    assert _read(workshop, "t") == [value]
    assert workshop.rows("SELECT v FROM t") == [(own,)]


def test_text_with_a_backslash_in_a_struct_is_refused_since_duckdb_reads_another(
    workshop: Workshop,
):
    workshop.rows("CREATE TABLE t (id INT, v STRUCT(s VARCHAR), l VARCHAR[])")
    workshop.rows(r"INSERT INTO t VALUES (1, {'s': 'a\b'}, ['a\b', 'a\,b'])")

    with pytest.raises(LakeReadError, match='a backslash, in the field "s"'):
        _read(workshop, "t")
    assert workshop.rows("SELECT v, l FROM t") == [({"s": "ab"}, [r"a\b", r"a\,b"])]


def test_nested_rows_in_the_catalog_follow_the_shape_of_the_table(workshop: Workshop):
    workshop.rows("CREATE TABLE t (id INT, v STRUCT(a INT, b VARCHAR, u UUID), l SMALLINT[])")
    code = "56367b76-0ca4-44e8-a4d6-94574fdaa5dc"
    workshop.rows(f"INSERT INTO t VALUES (1, {{'a': 1, 'b': 'x', 'u': '{code}'}}, [1, NULL])")
    workshop.rows("ALTER TABLE t ADD COLUMN v.c INT")
    workshop.rows("ALTER TABLE t DROP COLUMN v.a")
    workshop.rows("ALTER TABLE t RENAME v.b TO bb")

    assert _read(workshop, "t") == [{"bb": "x", "u": code, "c": None}]


_LIST = ReadColumn(1, "l", "list", None, (ReadColumn(2, "element", "varchar", None),))
_STRUCT = ReadColumn(1, "s", "struct", None, (ReadColumn(2, "a", "varchar", None),))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (_LIST, ""),
        (_LIST, "a"),
        (_LIST, "[a"),
        (_LIST, "[a]]"),
        (_LIST, "[a,b]"),
        (_LIST, "[, ]"),
        (_LIST, "['a]"),
        (_STRUCT, "{}"),
        (_STRUCT, "{'b': x}"),
        (_STRUCT, "{'a': x, 'b': y}"),
        (_STRUCT, "{'a': }"),
    ],
)
def test_text_that_duckdb_does_not_write_is_no_value(column: ReadColumn, text: str):
    with pytest.raises(ValueError, match=r"is not|goes on|lacks|fields"):
        parse_nested(column, text, lambda _, one: one)


def test_decimals_and_dates_in_lists_keep_their_digits(workshop: Workshop):
    kind = Kind("struct", (("d", Kind("DECIMAL(38,7)")), ("day", Kind("DATE"))))
    value = {"d": Decimal("-1234567890123456789.1234567"), "day": date(1, 1, 1)}
    _insert(workshop, "t", kind, [value])
    _insert(workshop, "u", Kind("list", (("element", kind),)), [[value, None]])

    assert _read(workshop, "t") == [value]
    assert _read(workshop, "u") == [[value, None]]
