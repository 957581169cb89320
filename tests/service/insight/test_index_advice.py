"""``doctor`` names the indexes that refreshes lack, and what it names is valid, used and enough."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgtrickle.service.insight.doctor import check_server
from pgtrickle.service.insight.index_advice import IndexAdvice
from tests.labs.lab import Lab

ROWS = 20_000


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        'CREATE TABLE c (id int PRIMARY KEY, email text, code text COLLATE "POSIX", region int)',
        'CREATE TABLE o (id int, c_id int, email text, code text COLLATE "POSIX", region int,'
        ' ref xid, tag text COLLATE "C")',
        f"INSERT INTO c SELECT g, 'M' || g, 'k' || g, g % 3 FROM generate_series(1, {ROWS}) AS g",
        "INSERT INTO o SELECT g, g, 'm' || g, 'k' || g, g % 3, g::text::xid, 'k' || g"
        f" FROM generate_series(1, {ROWS}) AS g",
        "ANALYZE c, o",
    )
    return lab


def advice(lab: Lab) -> tuple[IndexAdvice, ...]:
    [check] = [check for check in check_server(lab.trickle._runtime) if check.name == "indexes"]
    assert check.ok
    return check.missing_indexes


def statements(lab: Lab) -> list[str]:
    return [one.statement for one in advice(lab)]


def explained(lab: Lab, name: str) -> Any:
    return json.loads(lab.trickle.explain_stream_table(name, "json"))


WANTED = {
    "a column": (
        "SELECT o.id, c.region FROM o JOIN c ON c.id = o.c_id",
        ['CREATE INDEX ON "public"."o" ("c_id");'],
    ),
    "the more selective of two columns": (
        "SELECT o.id FROM o JOIN c ON c.region = o.region AND c.id = o.c_id",
        ['CREATE INDEX ON "public"."o" ("c_id");'],
    ),
    "a collation of its own": (
        "SELECT o.id FROM o JOIN c ON c.code = o.code",
        ['CREATE INDEX ON "public"."c" ("code");', 'CREATE INDEX ON "public"."o" ("code");'],
    ),
    "an expression": (
        "SELECT o.id FROM o JOIN c ON lower(c.email) = o.email",
        [
            'CREATE INDEX ON "public"."c" ((LOWER("email")));',
            'CREATE INDEX ON "public"."o" ("email");',
        ],
    ),
    "two bounds of one table": (
        "SELECT a.id FROM o AS a JOIN o AS b ON b.c_id = a.id",
        ['CREATE INDEX ON "public"."o" ("c_id");', 'CREATE INDEX ON "public"."o" ("id");'],
    ),
    "a column of three values": (
        "SELECT o.id FROM o JOIN c ON c.id = o.region",
        [],
    ),
    "an aggregate below the join": (
        "SELECT c.id, g.n FROM c JOIN (SELECT c_id, count(*) AS n FROM o GROUP BY c_id) AS g"
        " ON g.c_id = c.id",
        [],
    ),
}


@pytest.mark.parametrize(("query", "expected"), WANTED.values(), ids=WANTED.keys())
def test_advice_is_valid_and_ends_the_asking(shop: Lab, query: str, expected: list[str]) -> None:
    shop.create("s", query)

    found = statements(shop)
    assert sorted(found) == expected
    assert set(explained(shop, "s")["missing_indexes"]) == set(found)

    shop.run(*found)

    assert statements(shop) == []
    assert explained(shop, "s")["missing_indexes"] == []


@pytest.mark.parametrize(
    "name", ["a column", "a collation of its own", "an expression", "two bounds of one table"]
)
def test_read_uses_the_index_that_was_advised(shop: Lab, name: str) -> None:
    query, _ = WANTED[name]
    shop.create("s", query)
    shop.run(*statements(shop), "ANALYZE c, o")
    reads = [
        read
        for stage in explained(shop, "s")["stages"]
        for read in stage["reads"]
        if read["kind"] == "keyed"
    ]

    assert reads
    for read in reads:
        # A window after this snapshot is empty, as after a small change.
        filled = read["sql"].replace(":window", "__xid >= pg_current_xact_id()")
        plan = "\n".join(row[0] for row in shop.connection.execute(f"EXPLAIN {filled}".encode()))
        assert "Seq Scan on o " not in plan, plan
        assert "Seq Scan on c " not in plan, plan


def test_advice_is_grouped_by_index(shop: Lab) -> None:
    shop.create("s1", "SELECT o.id, c.region FROM o JOIN c ON c.id = o.c_id")
    shop.create("s2", "SELECT o.id, c.email FROM o JOIN c ON c.id = o.c_id")

    [one] = advice(shop)

    assert one.table == "public.o"
    assert one.stream_tables == ("public.s1", "public.s2")
    assert one.rows == ROWS


def test_small_table_needs_no_index(shop: Lab) -> None:
    shop.run("CREATE TABLE small (id int, c_id int)", "INSERT INTO small VALUES (1, 1)")
    shop.create("s", "SELECT small.id, c.region FROM small JOIN c ON c.id = small.c_id")

    assert statements(shop) == []
    assert explained(shop, "s")["missing_indexes"] == ['CREATE INDEX ON "public"."small" ("c_id");']


def test_table_that_was_never_analyzed_is_judged_by_its_size(shop: Lab) -> None:
    shop.run(
        "CREATE TABLE new (id int, c_id int) WITH (autovacuum_enabled = off)",
        f"INSERT INTO new SELECT g, g FROM generate_series(1, {ROWS}) AS g",
    )
    shop.create("s", "SELECT new.id, c.region FROM new JOIN c ON c.id = new.c_id")

    [one] = advice(shop)

    assert (one.table, one.rows) == ("public.new", None)


UNUSABLE = {
    "another collation": 'CREATE INDEX ON o (tag COLLATE "POSIX")',
    "part of the rows": "CREATE INDEX ON o (tag) WHERE id > 0",
    "another column in front": "CREATE INDEX ON o (id, tag)",
    "a kind without equality": "CREATE INDEX ON o USING brin (tag)",
}


@pytest.mark.parametrize("index", UNUSABLE.values(), ids=UNUSABLE.keys())
def test_index_that_cannot_answer_does_not_count(shop: Lab, index: str) -> None:
    shop.run(index)
    shop.create("s", "SELECT o.id FROM o JOIN c ON c.email = o.tag AND c.id = 1")

    assert 'CREATE INDEX ON "public"."o" ("tag");' in statements(shop)


def test_hash_index_counts_where_nulls_do_not_join(shop: Lab) -> None:
    shop.run("CREATE INDEX ON o USING hash (c_id)")
    shop.create("s", "SELECT o.id, c.region FROM o JOIN c ON c.id = o.c_id")

    assert statements(shop) == []


def test_broken_stream_table_does_not_keep_doctor_from_the_others(shop: Lab) -> None:
    shop.create("s", "SELECT o.id, c.region FROM o JOIN c ON c.id = o.c_id")
    shop.run("CREATE TABLE gone (id int)")
    shop.trickle.create_stream_table("t", "SELECT id FROM gone")
    shop.run("DROP TABLE gone")

    assert statements(shop) == ['CREATE INDEX ON "public"."o" ("c_id");']
