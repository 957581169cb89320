"""Identifiers and literals of any content, maintained incrementally and never misread."""

from __future__ import annotations

import pytest

from pgtrickle.errors import QuerySyntaxError
from pgtrickle.model.text.names import quote_identifier, quote_literal
from tests.labs.lab import Lab

# What quoting, formatting, placeholders and our own marks could stumble over.
CONTENTS = {
    "quotes": "it's \"quoted\" ''twice'' \"\"",
    "backslashes": "a\\b\\\\c\\'d\\n\\",
    "dollar quotes": "$$ $body$ $1 $",
    "braces": "{x} {} {{t__rows}} {t__changes} {0}",
    "percent signs": "%s %(x)s %% 100%",
    "a window's mark": "x :window y",
    "a key's mark": ":keys(group_1,k_key)",
    "a page range": "{ctid range}",
    "a hint": "/* one partition */ /*+ COALESCE(1) */",
    "comments": "-- x /* y */ ; DROP TABLE t",
    "letters": "Größe 日本語 ñ İı",
    "emoji": "😀👩‍👩‍👧 é",
    "lines": "a\nb\r\nc\td",
    "backticks": "`t` ``",
    "blanks": "  x  ",
}
_MAX_BYTES = 63


@pytest.fixture(params=list(CONTENTS.values()), ids=list(CONTENTS))
def content(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_literals_in_every_place(lab: Lab, content: str) -> None:
    text = quote_literal(content)
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k text, n int)",
        "CREATE TABLE u (k text, w text)",
        f"INSERT INTO t VALUES (1, {text}, 1), (2, 'x', 2), (3, NULL, 3)",
        f"INSERT INTO u VALUES ({text}, 'a'), ('x', {text}), (NULL, 'c')",
    )
    lab.create("read", f"SELECT id, k || {text} AS k, {text} AS c FROM t WHERE k <> {text} || '!'")
    lab.create(
        "across",
        f"SELECT t.id, u.w || {text} AS w FROM t JOIN u ON u.k = t.k"
        f" WHERE t.k || u.w <> {text} AND (u.w = {text} OR t.k = {text})",
    )
    lab.create(
        "grouped",
        f"SELECT k, count(*) AS n, max(k || {text}) AS m, string_agg(k, {text} ORDER BY k) AS s"
        f" FROM t GROUP BY k HAVING max(k) <> {text} || '!'",
    )
    lab.create(
        "over_groups",
        f"SELECT u.w, g.n, {text} AS c FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g"
        f" JOIN u ON u.k = g.k WHERE u.w <> {text} || g.k",
    )

    lab.window(f"INSERT INTO t VALUES (4, {text}, 9)", "DELETE FROM u WHERE w = 'a'")
    lab.window(f"UPDATE t SET k = {text} WHERE id > 1", f"INSERT INTO u VALUES ({text}, 'z')")
    lab.window(f"DELETE FROM t WHERE k = {text} AND id < 4")


def test_identifiers_in_every_place(lab: Lab, content: str) -> None:
    name = quote_identifier(content)
    lab.run(
        f"CREATE SCHEMA {name}",
        f"CREATE TABLE {name}.{name} (id int PRIMARY KEY, {name} text, n int)",
        f"CREATE TABLE u ({name} text, w int)",
        f"INSERT INTO {name}.{name} VALUES (1, 'a', 1), (2, 'b', 2), (3, NULL, 3)",
        "INSERT INTO u VALUES ('a', 1), ('b', 2), (NULL, 3)",
    )
    lab.create(
        f"{name}.s",
        f"SELECT {name}.id, {name}.{name}, u.w AS {quote_identifier('w ' + content)}"
        f" FROM {name}.{name} JOIN u ON u.{name} = {name}.{name} WHERE {name}.n + u.w > 1",
    )
    lab.create(
        quote_identifier("g " + content),
        f"WITH {name} AS (SELECT {name}, sum(n) AS {name}_sum FROM {name}.{name} GROUP BY 1)"
        f" SELECT x.{name}, x.{name}_sum AS n, count(u.w) AS m FROM {name} AS x"
        f" LEFT JOIN u ON u.{name} = x.{name} GROUP BY 1, 2".replace(
            f"{name}_sum", quote_identifier("sum of " + content)
        ),
    )

    lab.window(f"INSERT INTO {name}.{name} VALUES (4, 'a', 7)", "DELETE FROM u WHERE w = 2")
    lab.window(f"UPDATE {name}.{name} SET {name} = 'b'", "INSERT INTO u VALUES ('b', 8)")
    assert lab.trickle.explain_stream_table(f"{name}.s")
    lab.trickle.drop_stream_table(f"{name}.s")


@pytest.mark.parametrize("letter", ["x", "é", "😀"])
def test_identifiers_as_long_as_postgresql_allows(lab: Lab, letter: str) -> None:
    long = letter * (_MAX_BYTES // len(letter.encode()))
    name, other = quote_identifier(long), quote_identifier("y" + long[:-1])
    lab.run(
        f"CREATE TABLE {name} ({name} int PRIMARY KEY, {other} int)",
        f"INSERT INTO {name} VALUES (1, 1), (2, 1)",
    )
    lab.create(
        other,
        f"SELECT a.{other}, sum(b.{name}) AS {name} FROM {name} AS a"
        f" JOIN {name} AS b ON b.{other} = a.{name} GROUP BY 1",
    )

    lab.window(f"INSERT INTO {name} VALUES (3, 2)")
    lab.window(f"UPDATE {name} SET {other} = 2 WHERE {name} = 1")


def test_marks_as_key_values_are_data(lab: Lab) -> None:
    """Keys of an earlier stage are written into the next read: they may look like its marks."""
    lab.run(
        "CREATE TABLE t (k text)",
        "CREATE TABLE u (k text, w text)",
        "INSERT INTO t VALUES (':window'), (':keys(group_1,k_key)')",
        "INSERT INTO u VALUES (':window', 'a'), (':keys(group_1,k_key)', 'b')",
    )
    lab.create(
        "s",
        "SELECT u.w, g.n FROM (SELECT k, count(*) AS n FROM t GROUP BY k) AS g JOIN u ON u.k = g.k",
    )

    lab.window("INSERT INTO t VALUES (':window')")
    lab.window("INSERT INTO t VALUES (':keys(group_1,k_key)'), ('{u__rows}')")


@pytest.mark.parametrize("query", ["SELECT 'a\0b' AS x FROM t", "SELECT '\ud800' AS x FROM t"])
def test_what_is_no_text_is_st101(lab: Lab, query: str) -> None:
    lab.run("CREATE TABLE t (id int)")

    with pytest.raises(QuerySyntaxError) as caught:
        lab.trickle.create_stream_table("s", query)

    assert caught.value.hint
    assert lab.leftovers() == []
