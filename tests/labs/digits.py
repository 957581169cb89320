"""Queries whose numerics show different digits, and the comparison of their rows as text."""

from __future__ import annotations

from tests.labs.lab import Lab, Row

TABLES = (
    "CREATE TABLE o (id int PRIMARY KEY, k int, n int, p numeric(7, 2), l numeric(7, 2))",
    "CREATE TABLE i (k int PRIMARY KEY, w numeric, k2 int)",
    "INSERT INTO o VALUES (1, 1, 3, 102.30, 7), (2, 1, 5, 17, 2.5), (3, 2, 7, 4.25, 1),"
    " (4, 3, 2, 9, 3)",
    "INSERT INTO i VALUES (1, 0.5, 4), (2, 1.250, 3), (3, 100, 7)",
)
# No window leaves the answer open: 0.5 and 0.50 are never in one group.
WINDOWS = (
    ("INSERT INTO o VALUES (5, 3, 4, 1.10, 2)", "UPDATE o SET p = p + 1 WHERE id = 1"),
    ("UPDATE i SET w = 0.50 WHERE k = 1",),
    ("INSERT INTO i VALUES (4, 200.0000, 1)", "INSERT INTO o VALUES (6, 4, 1, 1, 1)"),
    ("DELETE FROM o WHERE id = 2", "DELETE FROM i WHERE k = 4"),
    ("UPDATE i SET w = 2 WHERE k = 2", "DELETE FROM o WHERE k = 4"),
)
_OI = "FROM o JOIN i USING (k)"
QUERIES = {
    "keys": f"SELECT w, count(*) AS c {_OI} GROUP BY w",
    "extremes": f"SELECT o.k, max(w) AS most, min(w + p) AS least {_OI} GROUP BY o.k",
    "union": "SELECT p AS x FROM o UNION ALL SELECT w FROM i UNION ALL SELECT 0 FROM i",
    "computed_union": f"SELECT o.p + i.w AS x {_OI} UNION ALL SELECT w FROM i",
    "distinct": "SELECT p AS x FROM o UNION SELECT w FROM i",
    "sums": "SELECT o.k, sum(n * p) AS a, sum(n * w) AS b, sum(w) AS c, sum(p) AS d"
    f" {_OI} GROUP BY o.k",
    "all_sums": f"SELECT sum(w) AS w, sum(p * w) AS pw {_OI}",
    "one_table": "SELECT sum(w) AS w, avg(w) AS a, count(DISTINCT w) AS d FROM i",
    "averages": f"SELECT o.k, avg(p / l) AS a {_OI} GROUP BY o.k",
    "branches": "SELECT id, CASE WHEN n > k2 THEN p ELSE w END AS x, coalesce(w, 0) AS y,"
    f" greatest(p, w, n) AS z, least(p, w) AS v {_OI}",
    "sum_of_case": "SELECT o.k, sum(CASE WHEN n > k2 THEN p ELSE 0 END) AS s,"
    f" sum(CASE WHEN n > k2 THEN p * w ELSE 0 END) AS t {_OI} GROUP BY o.k",
    "computed": "SELECT id, p + w AS a, p * w AS b, round(p * w, 1) AS c, -w AS d, n * w AS e,"
    f" p - w AS f, mod(p, w) AS m, round(w + n, 4) AS r, (p * w)::numeric(9, 3) AS t {_OI}",
    "joined": "SELECT a.w AS one, b.w AS other FROM i AS a JOIN i AS b ON a.w = b.w",
    "nested": "SELECT t, count(*) AS c"
    f" FROM (SELECT o.k, sum(n * w) AS t {_OI} GROUP BY o.k) AS x GROUP BY t",
    "windows": f"SELECT id, w, sum(w) OVER (PARTITION BY o.k ORDER BY id) AS s {_OI}",
    "quotient": f"SELECT (n + k2) / 2 AS q, count(*) AS c {_OI} GROUP BY (n + k2) / 2",
    "scalars": "SELECT (SELECT sum(n * p) FROM o) AS a, (SELECT sum(w) FROM i) AS b,"
    " (SELECT max(w) FROM i) AS c",
    "lists": "SELECT o.k, array_agg(w ORDER BY id) AS l,"
    f" string_agg(w::text, ',' ORDER BY id) AS s {_OI} GROUP BY o.k",
    "averaged": "SELECT k, a FROM (SELECT o.k, avg(p / l) AS a FROM o GROUP BY o.k) AS x"
    " WHERE a >= (SELECT avg(p / l) FROM o)",
    "outer": "SELECT o.id, i.w, w * n AS x FROM o LEFT JOIN i ON i.k = o.k AND i.w > o.p",
    "rollup": f"SELECT w, o.k, sum(p) AS s, grouping(w) AS g {_OI} GROUP BY ROLLUP (w, o.k)",
}


def text_differences(lab: Lab, name: str) -> list[Row]:
    """Return the rows in which a stream table and its query differ as text."""
    query = f"SELECT q::text FROM ({lab.queries[name]}) AS q"
    mine = f"SELECT q::text FROM {name} AS q"
    return lab.rows(
        f"SELECT 'missing', d.* FROM ({query} EXCEPT ALL {mine}) AS d UNION ALL"
        f" SELECT 'extra', d.* FROM ({mine} EXCEPT ALL {query}) AS d"
    )


def follow_digits(lab: Lab, name: str) -> list[tuple[int, list[Row]]]:
    """Follow a query through all windows; return where its text was not PostgreSQL's."""
    lab.run(*TABLES)
    lab.create("made", QUERIES[name])
    found = [(0, text_differences(lab, "made"))]
    for number, window in enumerate(WINDOWS, 1):
        lab.run(*window)
        lab.trickle.refresh_stream_table("made")
        lab.check("made")
        found.append((number, text_differences(lab, "made")))
    return [one for one in found if one[1]]
