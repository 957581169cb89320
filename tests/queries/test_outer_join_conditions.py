"""Outer joins by other conditions than equality, alone or beside it (scenarios.md: P32, P33)."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

_LEFT = {
    "less": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.v < r.w",
    "range": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON l.v BETWEEN r.w - 5 AND r.w + 5",
    "equal and less": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON r.k = l.k AND l.v < r.w",
    "either": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON r.k = l.k OR l.v = r.w",
    "unlike": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON r.k <> l.k",
    "always": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON true",
    "one side only": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON r.w > 15",
    "null alike": "SELECT l.id, r.id AS rid FROM l LEFT JOIN r ON r.k IS NOT DISTINCT FROM l.k",
    "right": "SELECT l.id, r.id AS rid FROM l RIGHT JOIN r ON r.k = l.k AND l.v + 1 < r.w",
    "groups": "SELECT l.id, count(r.id) AS n, sum(r.w) AS w FROM l LEFT JOIN r ON l.v > r.w"
    " GROUP BY l.id",
}
_FULL = {
    "equal and less": "SELECT l.id, r.id AS rid FROM l FULL JOIN r ON r.k = l.k AND l.v < r.w",
    "equal and either": "SELECT l.id, r.id AS rid FROM l FULL JOIN r"
    " ON r.k = l.k AND (l.v < r.w OR l.id = r.id)",
    "conditions on one side": "SELECT l.id, r.id AS rid FROM l FULL JOIN r"
    " ON r.k = l.k AND l.v > 10 AND r.w < 40",
}


@pytest.fixture
def sides(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE l (id int, k int, v int)",
        "CREATE TABLE r (id int, k int, w int)",
        "INSERT INTO l VALUES (1, 1, 10), (2, 2, 20), (2, 2, 20), (3, NULL, 30), (4, 4, NULL)",
        "INSERT INTO r VALUES (1, 1, 15), (2, 2, 5), (5, NULL, 25)",
    )
    return lab


def change(lab: Lab) -> None:
    """Gain first and lose last matches on either side, with NULL and duplicates."""
    lab.window("INSERT INTO r VALUES (6, 2, 35), (6, 2, 35)")
    lab.window("DELETE FROM r WHERE id = 1", "UPDATE l SET v = 4 WHERE id = 3")
    lab.window("UPDATE r SET w = NULL WHERE id = 6", "INSERT INTO l VALUES (7, 1, 1)")
    lab.window("UPDATE l SET k = 4 - k", "UPDATE r SET k = 1, w = 50 WHERE id = 5")
    lab.window("DELETE FROM r", "INSERT INTO l VALUES (8, 8, 8)")
    lab.window("DELETE FROM l WHERE id < 4", "INSERT INTO r VALUES (9, 4, 9)")


@pytest.mark.parametrize("query", _LEFT.values(), ids=_LEFT.keys())
def test_p32_left_join_by_any_condition(sides: Lab, query: str) -> None:
    sides.create("s", query)

    change(sides)


@pytest.mark.parametrize("query", _FULL.values(), ids=_FULL.keys())
def test_p33_full_join_by_an_equality_and_more(sides: Lab, query: str) -> None:
    sides.create("s", query)

    change(sides)
