"""A query that occurs several times is one stage with one state, if it is truly the same."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_STATES = "SELECT relname FROM pg_class WHERE relname ~ '^st_[0-9]+_(group|part)_[0-9]+$'"
_SUMS = "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k"


@pytest.fixture(params=["lab", "postgres_lab"])
def twins(request: pytest.FixtureRequest) -> Lab:
    lab: Lab = request.getfixturevalue(request.param)
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v int, c text)",
        "CREATE TABLE u (k int, v int)",
        "INSERT INTO t SELECT i, NULLIF(i % 5, 4), i, CASE WHEN i % 2 = 0 THEN 'a' ELSE 'A' END"
        " FROM generate_series(1, 24) AS i",
        "INSERT INTO u VALUES (1, 1), (2, 2), (2, 3), (3, 4), (NULL, 5)",
    )
    return lab


def change(lab: Lab) -> None:
    """Let groups change, come and go, in one table and in both."""
    lab.window("INSERT INTO t VALUES (31, 1, 40, 'a'), (32, 7, 3, 'A')")
    lab.window("UPDATE t SET k = k + 1 WHERE id % 3 = 0", "DELETE FROM u WHERE v = 3")
    lab.window("DELETE FROM t WHERE k = 2", "INSERT INTO u VALUES (1, 9), (7, 9)")
    lab.window("UPDATE t SET v = -v, c = lower(c)", "UPDATE u SET k = k + 1")
    lab.window("UPDATE t SET k = NULL WHERE k = 1", "DELETE FROM t WHERE k = 7")


_WITH = f"WITH x AS ({_SUMS})"
SHARED = {
    "a self join by a key": (
        1,
        f"{_WITH} SELECT a.k, a.s, b.s AS next FROM x AS a JOIN x AS b ON b.k = a.k + 1",
    ),
    "a self join by results": (
        1,
        f"{_WITH} SELECT a.k, b.k AS other FROM x AS a JOIN x AS b ON b.n = a.n",
    ),
    "a self join by a range": (
        1,
        f"{_WITH} SELECT a.k, b.k AS other FROM x AS a JOIN x AS b ON b.s > a.s",
    ),
    "each use keeps other columns and rows": (
        1,
        f"{_WITH} SELECT k, s FROM x WHERE s > 20 UNION ALL SELECT n, 1 FROM x WHERE n < 5",
    ),
    "derived tables of one text": (
        1,
        f"SELECT a.k, b.n FROM ({_SUMS}) AS a JOIN ({_SUMS}) AS b ON b.k = a.k AND b.s > 10",
    ),
    "a CTE of a CTE": (
        2,
        f"{_WITH}, y AS (SELECT n, max(s) AS m FROM x GROUP BY n)"
        " SELECT a.n, a.m, b.m AS other, x.k FROM y AS a JOIN y AS b ON b.n >= a.n"
        " JOIN x ON x.n = a.n",
    ),
    "joined with its own average": (
        2,
        f"{_WITH} SELECT k, s FROM x WHERE s > (SELECT avg(s) FROM x)",
    ),
    "three of five branches": (
        3,
        "WITH x AS (SELECT k FROM t INTERSECT SELECT k FROM u),"
        " y AS (SELECT k, count(*) AS n FROM t GROUP BY k)"
        " SELECT k, 0 AS n FROM x UNION ALL SELECT k, 1 FROM x UNION ALL SELECT k, n FROM y"
        " UNION ALL SELECT k, -n FROM y UNION (SELECT k, 2 FROM x)",
    ),
    "windows, and the keys of an outer join": (
        2,
        "WITH x AS (SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v, id) AS r FROM t)"
        " SELECT a.k, a.v, b.v AS before"
        " FROM x AS a LEFT JOIN x AS b ON b.k = a.k AND b.r = a.r - 1",
    ),
}


@pytest.mark.parametrize(("states", "query"), SHARED.values(), ids=SHARED.keys())
def test_it_is_kept_once(twins: Lab, states: int, query: str) -> None:
    twins.create("s", query)

    change(twins)

    assert len(twins.rows(_STATES)) == states


def test_a_view_is_kept_once(twins: Lab) -> None:
    twins.run(f"CREATE VIEW w AS {_SUMS}", "CREATE VIEW ww AS SELECT k, s FROM w WHERE n > 1")
    twins.create(
        "s", "SELECT w.k, ww.s, z.s AS z FROM w JOIN ww USING (k) JOIN ww AS z ON z.s > w.n"
    )

    change(twins)

    assert len(twins.rows(_STATES)) == 1


_FILTERED = "(SELECT k, count(*) AS n FROM t WHERE {} GROUP BY k)"
_BESIDE = "SELECT a.k, b.n FROM {} AS a JOIN {} AS b USING (k)"
DIFFERENT = {
    "a literal in other letters": _BESIDE.format(
        _FILTERED.format("c = 'a'"), _FILTERED.format("c = 'A'")
    ),
    "another literal": _BESIDE.format(_FILTERED.format("v < 9"), _FILTERED.format("v < 8")),
    "a name of WITH that means another query": "WITH x AS (SELECT k FROM t)"
    " SELECT a.k, a.n, b.n AS m FROM (SELECT k, count(*) AS n FROM x GROUP BY k) AS a"
    " JOIN (WITH x AS (SELECT k FROM u) SELECT y.k, y.n"
    " FROM (SELECT k, count(*) AS n FROM x GROUP BY k) AS y) AS b USING (k)",
    "the same text around other rows": "SELECT t.id, (SELECT count(*) FROM u WHERE u.k = t.k) AS n"
    " FROM t UNION ALL SELECT t.v, (SELECT count(*) FROM u WHERE u.k = t.k)"
    " FROM (SELECT v AS k, id AS v FROM t) AS t",
}


@pytest.mark.parametrize("query", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_only_looks_the_same_is_not_shared(twins: Lab, query: str) -> None:
    twins.create("s", query)

    change(twins)

    assert len(twins.rows(_STATES)) >= 2


def test_writers_maintain_it_too(twins: Lab) -> None:
    for name in ("a self join by results", "joined with its own average", "a CTE of a CTE"):
        twins.create(f"s{len(twins.queries)}", SHARED[name][1], "IMMEDIATE")

    for statement in (
        "INSERT INTO t VALUES (31, 1, 40, 'a'), (32, 7, 3, 'A')",
        "UPDATE t SET k = k + 1, v = v - 3 WHERE id % 3 = 0",
        "DELETE FROM t WHERE k = 2",
    ):
        twins.run(statement)
        assert [twins.differences(name) for name in twins.queries] == [[], [], []]


def test_outer_joins_find_keys_of_rows_that_inner_joins_drop_and_bring_back(twins: Lab) -> None:
    """The keys come from one input, so there may be some that no row of the join has."""
    joins = " ".join(f"JOIN u AS u{n} ON u{n}.k = t.k AND u{n}.v < {9 - n}" for n in range(5))
    twins.create(
        "s",
        f"SELECT t.id, a.v AS a, b.v AS b, c.n FROM t {joins}"
        " LEFT JOIN u AS a ON a.v = t.v LEFT JOIN u AS b ON b.v = a.k AND t.id > 3"
        " LEFT JOIN (SELECT v % 5 AS v, count(*) AS n FROM t GROUP BY v % 5) AS c ON c.v = b.v",
    )

    change(twins)
    twins.window("DELETE FROM u WHERE k = 2", "UPDATE t SET v = v % 7")
    twins.window("INSERT INTO u SELECT 2, i FROM generate_series(1, 4) AS i")
