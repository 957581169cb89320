"""Literals and names that look like marks of our own text templates (scenarios.md: P50)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_WORDS = [":window", ":keys(group_1,n)", "{ctid range}", "{t__rows}", "{}", "%s", "%(name)s", "$1",
          ":window AND __weight <> 0", "it''s", "-- x", "/* x", "\\", "{{", "?"]  # fmt: skip


@pytest.fixture
def notes(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int, k int, note text)", "CREATE TABLE u (k int, note text)")
    for number, word in enumerate(_WORDS):
        lab.run(
            f"INSERT INTO t VALUES ({number}, {number % 3}, '{word}')",
            f"INSERT INTO u VALUES ({number % 3}, '{word}')",
        )
    return lab


@pytest.mark.parametrize("word", _WORDS)
def test_p50_literal_that_looks_like_a_mark(notes: Lab, word: str) -> None:
    notes.create("one", f"SELECT id, '{word}' AS shown FROM t WHERE note = '{word}'")
    notes.create(
        "two",
        f"SELECT t.id, u.note || '{word}' AS shown FROM t JOIN u ON u.k = t.k"
        f" WHERE u.note <> '{word}' AND t.note || u.note <> '{word}'",
    )
    notes.create("groups", f"SELECT k, count(*) AS n FROM t WHERE note <> '{word}' GROUP BY k")

    notes.window(
        f"INSERT INTO t VALUES (99, 1, '{word}'), (98, 0, 'other')",
        f"DELETE FROM u WHERE note = '{word}'",
    )
    notes.window("DELETE FROM t WHERE id < 7", f"INSERT INTO u VALUES (2, '{word}')")


def test_p50_column_that_is_named_like_a_mark(lab: Lab) -> None:
    lab.run(
        'CREATE TABLE t (":window" int, "{ctid range}" int, "k:keys(a,b)" int)',
        "INSERT INTO t VALUES (1, 2, 3), (4, 5, 6)",
        'CREATE TABLE ":keys(t,k)" (":window" int, "{t__rows}" text)',
        """INSERT INTO ":keys(t,k)" VALUES (1, 'one')""",
    )
    lab.create(
        "s",
        'SELECT t.":window", t."{ctid range}" AS "{}", x."{t__rows}" FROM t'
        ' JOIN ":keys(t,k)" AS x ON x.":window" = t.":window"',
    )
    lab.create("g", 'SELECT ":window", sum("k:keys(a,b)") AS ":n" FROM t GROUP BY ":window"')

    lab.window("INSERT INTO t VALUES (1, 7, 8)", """UPDATE ":keys(t,k)" SET ":window" = 4""")
    lab.window('DELETE FROM t WHERE ":window" = 1', """INSERT INTO ":keys(t,k)" VALUES (4, 'x')""")
