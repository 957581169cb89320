"""Whole rows, composite values and arrays of subqueries are maintained as PostgreSQL shows them."""

from __future__ import annotations

import pytest

from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import Action
from tests.labs.lab import Lab

_SCHEMA = (
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE TABLE c (id int PRIMARY KEY, name text, p pair, boss int)",
    "CREATE TABLE o (id int PRIMARY KEY, cid int, n positive, note text)",
    "CREATE VIEW big AS SELECT id AS number, note FROM o WHERE n > 1",
    "INSERT INTO c SELECT i, 'name ' || i % 2, ROW(i % 3, 'x')::pair, nullif(i / 2, 0)"
    " FROM generate_series(1, 6) AS i",
    "INSERT INTO o SELECT i, nullif(i % 7, 0), 1 + i % 3, nullif('note ' || i % 4, 'note 3')"
    " FROM generate_series(1, 16) AS i",
)
_WINDOWS = (
    (
        "INSERT INTO o VALUES (20, 2, 3, 'note 1'), (21, NULL, NULL, NULL)",
        "UPDATE c SET p = ROW(id % 2, NULL)::pair WHERE id IN (2, 3, 5)",
        "DELETE FROM o WHERE id IN (4, 9)",
    ),
    (
        "UPDATE o SET n = 1 + id % 2, note = 'note 9' WHERE id < 6",
        "INSERT INTO c VALUES (9, NULL, NULL, 2), (10, 'name 1', ROW(NULL, NULL), NULL)",
        "DELETE FROM c WHERE id = 1",
    ),
)
_QUERIES = {
    "a whole row": "SELECT o FROM o",
    "a whole row of a view": "SELECT big FROM big",
    "a row as jsonb": "SELECT to_jsonb(o) AS j, row_to_json(o)::text AS t FROM o",
    "rows in an aggregate": "SELECT cid, json_agg(o ORDER BY id)::text AS j,"
    " (array_agg(o ORDER BY n DESC NULLS LAST, id))[1].note AS top FROM o GROUP BY cid",
    "rows in a subquery": "SELECT c.id, (SELECT jsonb_agg(o ORDER BY o.id) FROM o"
    " WHERE o.cid = c.id) AS j FROM c",
    "rows of a derived table": "SELECT c.id, (SELECT jsonb_agg(to_jsonb(x) ORDER BY x.number)"
    " FROM (SELECT o.id AS number, upper(o.note) AS shout FROM o WHERE o.cid = c.id) AS x) AS j"
    " FROM c",
    "a derived table that may be absent": "SELECT c.id, to_jsonb(x) AS j, count(x) OVER () AS n"
    " FROM c LEFT JOIN (SELECT cid, max(n) AS most FROM o GROUP BY cid) AS x ON x.cid = c.id",
    "rows that may be absent": "SELECT c.id, count(o) AS n, count(o) FILTER (WHERE o.n > 1) AS m"
    " FROM c LEFT JOIN o ON o.cid = c.id GROUP BY c.id",
    "rows that are NULL": "SELECT c.id, o IS NULL AS none, c IS NOT NULL AS whole"
    " FROM c LEFT JOIN o ON o.cid = c.id AND o.n = 2",
    "rows that are equal": "SELECT a.id, b.id AS other FROM o AS a JOIN o AS b ON a = b",
    "an outer row": "SELECT c.id FROM c WHERE EXISTS (SELECT FROM o WHERE o.cid = c.id AND"
    " (c IS NOT NULL OR o.note IS NULL))",
    "fields of a row": "SELECT (o).id, (c.p).a, (c.p).b FROM o JOIN c ON c.id = o.cid",
    "a count of composites": "SELECT name, count(p) AS n, count(DISTINCT (p).a) AS m FROM c"
    " GROUP BY name",
    "a join by composites": "SELECT a.id, b.id AS other FROM c AS a JOIN c AS b"
    " ON a.p = b.p AND a.id <> b.id",
    "an order of rows": "SELECT a.id, b.id AS other FROM o AS a JOIN c AS b"
    " ON (a.cid, a.n) < (b.id, b.boss) AND (a.n, a.id) >= (b.boss, 3)",
    "a domain as an outer value": "SELECT o.id, (SELECT max(c.name) FROM c WHERE c.id <= o.n)"
    " AS best, (SELECT count(*) FROM c WHERE c.boss = o.n) AS m FROM o",
    "ANY of an array of a subquery": "SELECT id FROM o WHERE n = ANY (ARRAY(SELECT boss FROM c))"
    " OR cid = ANY ((SELECT array_agg(boss) FROM c WHERE id > 3)::int[])",
    "an array of the first rows": "SELECT c.id, ARRAY(SELECT o.id FROM o WHERE o.cid = c.id"
    " ORDER BY o.n DESC, o.id LIMIT 2) AS ids FROM c",
    "an array of distinct values": "SELECT c.id, ARRAY(SELECT DISTINCT o.note FROM o"
    " WHERE o.cid = c.id ORDER BY o.note DESC) AS notes FROM c",
    "an array of groups": "SELECT ARRAY(SELECT max(id) FROM o GROUP BY cid ORDER BY count(*),"
    " max(id)) AS ids, ARRAY(SELECT max(id) FROM o) AS most",
    "an array of a union": "SELECT ARRAY(SELECT id FROM c UNION SELECT cid FROM o ORDER BY 1)"
    " AS ids",
    "a function of a subquery": "SELECT g, count(c.id) AS n FROM generate_series(1,"
    " (SELECT max(n) FROM o)) AS g LEFT JOIN c ON c.id % 3 = g GROUP BY g",
    "a lateral function of a subquery": "SELECT c.id, g FROM c CROSS JOIN LATERAL"
    " generate_series(1, (SELECT count(*) FROM o WHERE o.cid = c.id)) AS g",
    "a limit by a subquery": "SELECT id, n FROM o ORDER BY n DESC NULLS LAST, id"
    " LIMIT (SELECT count(*) - 3 FROM c) OFFSET (SELECT min(boss) FROM c)",
    "a limit of groups by a subquery": "SELECT cid, count(*) AS n FROM o GROUP BY cid"
    " ORDER BY n, cid LIMIT (SELECT max(boss) FROM c)",
    "a limit of a union by a subquery": "SELECT id FROM c UNION SELECT cid FROM o ORDER BY id"
    " LIMIT (SELECT count(*) / 2 FROM c)",
    "a limit by an outer value": "SELECT c.id, x.id AS o FROM c, LATERAL (SELECT o.id FROM o"
    " WHERE o.cid = c.id ORDER BY o.id LIMIT c.boss OFFSET (SELECT count(*) FROM o"
    " WHERE o.n > c.id)) AS x",
    "a limit of groups by an outer value": "SELECT c.id, x.n, x.m FROM c, LATERAL (SELECT o.n,"
    " count(*) AS m FROM o WHERE o.cid <= c.id GROUP BY o.n ORDER BY o.n LIMIT c.boss) AS x",
    "ties up to a subquery": "SELECT id, n FROM o WHERE n IS NOT NULL ORDER BY n DESC"
    " FETCH FIRST (SELECT max(boss) FROM c) ROWS WITH TIES",
}


def _fill(lab: Lab) -> Lab:
    lab.run(*_SCHEMA)
    return lab


@pytest.fixture
def shop(lab: Lab) -> Lab:
    return _fill(lab)


@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_query_is_followed(shop: Lab, query: str) -> None:
    shop.create("s", query)

    for window in _WINDOWS:
        shop.run(*window)
        report = shop.trickle.refresh_stream_table("s")
        assert report.action in {Action.DIFFERENTIAL, Action.NO_DATA}
        _check_text(shop, "s")


def test_postgresql_alone_follows_them_all(postgres_lab: Lab) -> None:
    shop = _fill(postgres_lab)
    for number, query in enumerate(_QUERIES.values()):
        shop.create(f"s{number}", query)

    for window in _WINDOWS:
        shop.run(*window)
        for name in shop.queries:
            shop.trickle.refresh_stream_table(name)
            _check_text(shop, name)


def _check_text(lab: Lab, name: str) -> None:
    """Compare the texts of the rows: json and some rows have no equality."""
    mine, theirs = (
        f"SELECT x::text FROM {name} AS x",
        f"SELECT x::text FROM ({lab.queries[name]}) x",
    )
    assert lab.rows(f"({theirs} EXCEPT ALL {mine}) UNION ALL ({mine} EXCEPT ALL {theirs})") == []


def test_a_column_that_is_added_is_a_part_of_whole_rows(shop: Lab) -> None:
    shop.create("s", "SELECT id, to_jsonb(o) AS j FROM o")

    shop.run("ALTER TABLE o ADD COLUMN extra int DEFAULT 7", "INSERT INTO o VALUES (30, 1, 1)")
    shop.refresh("s", "REINITIALIZE")
    shop.window("UPDATE o SET extra = id WHERE id < 5")


def test_only_means_the_table_until_it_has_children(shop: Lab) -> None:
    shop.create("s", "SELECT id, n FROM ONLY o", mode="AUTO")
    shop.window("UPDATE o SET n = 2 WHERE id = 3")

    shop.run("CREATE TABLE child () INHERITS (o)", "INSERT INTO child VALUES (40, 1, 2, 'x')")
    shop.trickle.refresh_stream_table("s")
    shop.check("s")
    shop.run("INSERT INTO child VALUES (41, 1, 2, 'x')", "INSERT INTO o VALUES (42, 1, 2, 'x')")
    shop.trickle.refresh_stream_table("s")
    shop.check("s")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x::text AS t, to_json(x) AS j FROM (SELECT id, n FROM o) AS x",
        "SELECT cid, array_agg(ROW(id, n) ORDER BY id)::text AS r FROM o GROUP BY cid",
        "WITH RECURSIVE r AS (SELECT id, to_jsonb(c) AS j FROM c WHERE boss IS NULL UNION ALL"
        " SELECT c.id, to_jsonb(c) FROM c JOIN r ON c.boss = r.id) SELECT id, j FROM r",
    ],
)
def test_rows_of_no_named_type_are_refused_where_they_are_stored(shop: Lab, query: str) -> None:
    with pytest.raises(TrickleError) as caught:
        shop.trickle.create_stream_table("s", query, refresh_mode="DIFFERENTIAL")

    assert caught.value.code == "ST102"
    assert "row" in str(caught.value)
