"""Changes that cancel out cost nothing, and keys of any content find their rows."""

from __future__ import annotations

import pytest

from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action
from tests.labs.lab import Lab

_JOIN = "SELECT o.id, c.name FROM o JOIN c ON c.code = o.code"


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE c (code text PRIMARY KEY, name text, balance int)",
        "CREATE TABLE o (id int PRIMARY KEY, code text, note text)",
        "CREATE INDEX ON o (code)",
        "INSERT INTO c SELECT 'c' || g, 'n' || g, 0 FROM generate_series(1, 20) AS g",
        "INSERT INTO o SELECT g, 'c' || g % 20 + 1, 'x' FROM generate_series(1, 60) AS g",
    )
    return lab


def _kinds(report: RefreshReport) -> list[tuple[str, str]]:
    return [(read.source, read.kind) for read in report.reads]


def test_a_table_whose_changes_cancel_out_bounds_nothing(shop: Lab) -> None:
    # Another stream table makes pgtrickle capture the balance; this one does not ask for it.
    shop.create("other", "SELECT code, balance FROM c")
    shop.create("s", _JOIN)
    shop.run("UPDATE c SET balance = 7", "INSERT INTO o VALUES (100, 'c3', 'x')")

    report = shop.refresh("s")

    assert report.action is Action.DIFFERENTIAL
    assert (report.rows_inserted, report.rows_deleted) == (1, 0)
    assert _kinds(report) == [
        ("public.o", "changes"),
        ("public.c", "changes"),
        ("public.c", "keyed"),
    ]
    assert [read.rows for read in report.reads] == [1, 40, 1]


def test_a_window_that_cancels_out_reads_no_table(shop: Lab) -> None:
    shop.create("s", _JOIN)
    shop.run("INSERT INTO o VALUES (100, 'c3', 'x')", "DELETE FROM o WHERE id = 100")

    report = shop.refresh("s")

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)
    assert _kinds(report) == [("public.o", "changes")]


def test_groups_that_show_the_same_stop_the_refresh_there(shop: Lab) -> None:
    shop.create(
        "s",
        "SELECT c.name, g.n FROM (SELECT code, count(*) AS n FROM o GROUP BY code) AS g"
        " JOIN c ON c.code = g.code",
    )
    # One order leaves each group and another enters it.
    shop.run("DELETE FROM o WHERE id <= 20", "INSERT INTO o SELECT g + 500, 'c' || g FROM"
             " generate_series(1, 20) AS g")  # fmt: skip

    report = shop.refresh("s")

    assert (report.rows_inserted, report.rows_deleted) == (0, 0)
    assert ("public.c", "keyed") not in _kinds(report)


@pytest.mark.parametrize(
    "code", ["it's", 'say "so"', "back\\slash", "{a,b}", "", "NULL", "é😀", ":window", ":array_0"]
)
def test_keys_of_any_content_find_their_rows(shop: Lab, code: str) -> None:
    shop.create("s", _JOIN)
    literal = "'" + code.replace("'", "''") + "'"
    shop.run(
        f"INSERT INTO c VALUES ({literal}, 'found', 0)",
        f"INSERT INTO o VALUES (200, {literal}, 'x'), (201, NULL, 'x')",
    )

    shop.refresh("s")
    assert (200, "found") in shop.rows("SELECT * FROM s")

    shop.run(f"UPDATE c SET name = 'again' WHERE code = {literal}")
    shop.refresh("s")
    assert (200, "again") in shop.rows("SELECT * FROM s")


@pytest.mark.parametrize(
    "type_", ["smallint", "bigint", "numeric(10,2)", "char(8)", "date", "uuid"]
)
def test_keys_of_every_type_find_their_rows(shop: Lab, type_: str) -> None:
    value = {
        "char(8)": "lpad(g::text, 4, 'k')",
        "date": "date '2024-02-28' + g",
        "uuid": "lpad(g::text, 32, '0')::uuid",
    }.get(type_, f"g::{type_}")
    shop.run(
        f"CREATE TABLE l (k {type_}, a int)",
        f"CREATE TABLE r (k {type_} PRIMARY KEY, b int)",
        f"INSERT INTO l SELECT {value}, g FROM generate_series(1, 30) AS g",
        f"INSERT INTO r SELECT {value}, g FROM generate_series(1, 30) AS g",
    )
    shop.create("s", "SELECT l.a, r.b FROM l JOIN r ON r.k = l.k")
    shop.run(
        f"INSERT INTO l SELECT {value}, -g FROM generate_series(5, 9) AS g",
        f"UPDATE r SET b = b + 100 WHERE k = (SELECT {value} FROM (VALUES (7)) AS v (g))",
    )

    report = shop.refresh("s")

    assert report.action is Action.DIFFERENTIAL
    assert report.rows_inserted == 6
