"""The measure of a text and PostgreSQL's own lexer agree on what is a comment and what a string."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pgtrickle.sql.text.lexer import measure, tokens

_PIECES = st.sampled_from(
    [
        "1", ",", ",1", " ", "\n", "\r", "\t", "--", "/*", "*/", "'", "''", '"', "E'", "e'", "\\'",
        "\\", "$$", "$a$", "$a", "a$", "U&'", "b", "x,", "(", ")", "/", "-", "*", "é", "\u00a0",
        "'a'", "'a,'", "'--,'", "/*,*/", "--,\n", "--,\r", "$$,$$", "$a$,$$,$a$", "E'\\',' ",
        "'\n'", "'--\n'", "1,", "N'", "||", "+",
    ]
)  # fmt: skip


_VALUES = st.sampled_from(
    [
        "1", "'a,'", "E'\\','", "$$,'$$", "$a$,$$'$a$", "U&'\\0041,'", "'a'\n'b,'", "'\\'", "B'1'",
        "E'a'\n'\\','", "E'a' --'\n '\\','", "1+--,\r1", "'/*,'", "(1*/*/*,*/'*/2)", "'é,'",
    ]
)  # fmt: skip
_GAPS = st.sampled_from(["", " ", "\n", "--,\n", "--,'\r", "/*,*/", "/*/*,*/'*/", "\t--/*\n"])
_LISTS = st.lists(st.tuples(_GAPS, _VALUES, _GAPS).map("".join), max_size=5).map(",".join)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_LISTS | st.lists(_PIECES, max_size=14).map("".join))
@example("1--,\r,1")
@example("1/*/*,*/,*/")
@example("E'a'\n'\\',1',1")
@example("E'a'--'\n'\\',1',1")
@example("'\\',1--'\n")
@example("$a$,$$,'$a$,1")
@example("1,U&'\\0041,'")
def test_commas_are_where_postgresql_sees_them(lexed: psycopg.Connection, text: str):
    """An array of integers and texts has one element more than commas that count."""
    query = f"SELECT pg_catalog.num_nulls({text}\n)"
    try:
        lexed.execute("BEGIN")
        [(given_,)] = lexed.execute(
            f"SELECT pg_catalog.json_array_length(pg_catalog.json_build_array({text}\n))".encode()
        ).fetchall()
    except psycopg.Error:
        return
    finally:
        lexed.execute("ROLLBACK")

    found = [one for _, one in tokens(query)]

    assert found.count(",") == max(given_ - 1, 0)
    assert found[-1] == ")"


@pytest.fixture(scope="session")
def lexed(server_dsn: str):
    with psycopg.connect(server_dsn, autocommit=True) as connection:
        connection.execute("SET standard_conforming_strings = on")
        yield connection


@pytest.mark.parametrize(
    "text", ["case$x", "end$x", "endx", '"case"', "'case'", "$case$ ( $case$", "E'(\\'('"]
)
def test_what_looks_like_nesting_does_not_count(text: str):
    assert measure(f"(({text}))", 100).depth == 2


def test_joins_count_where_they_meet():
    union = " UNION ALL ".join(["SELECT a FROM t JOIN u USING (a)"] * 9)
    nested = "SELECT a FROM " + "(" * 8 + "t" + " JOIN u USING (a))" * 8 + " JOIN v USING (a)"

    assert measure(union, 10_000).joins == 1
    assert measure(nested, 10_000).joins == 9
