"""The first load: state that is filled while it is empty, and followed afterwards."""

from __future__ import annotations

import re

import pytest

from pgtrickle.service.compile import Compiled, compile_query, compile_stream_table
from pgtrickle.service.remembered import Remembered
from tests.labs.lab import Lab

_MANY = 6_000  # rows, from which on indexes are built after the load
_QUERIES = {
    "many groups": "SELECT id % 5500 AS k, count(*) AS n, sum(p) AS s FROM r GROUP BY id % 5500",
    "numbers that look different": "SELECT p, count(*) AS n FROM r GROUP BY p",
    "documents": "SELECT k, j::text AS j FROM (SELECT DISTINCT k, j::jsonb AS j FROM r) AS d",
    "stored values": "SELECT k, min(p) AS a, max(t) AS b, count(DISTINCT t) AS c FROM r GROUP BY k",
    "lists": "SELECT k % 50 AS k, array_agg(t ORDER BY id) AS l FROM r GROUP BY k % 50",
    "no key": "SELECT count(*) AS n, max(p) AS m, sum(p) AS s FROM r",
    "nothing to count": "SELECT count(*) AS n, max(p) AS m FROM r WHERE id < 0",
    "one after another": "SELECT n, count(*) AS c FROM"
    " (SELECT k, count(*) AS n FROM r GROUP BY k) AS g GROUP BY n",
    "a window": "SELECT id, rank() OVER (PARTITION BY k ORDER BY p) AS r FROM r",
    "the first rows": "SELECT id, p FROM r ORDER BY p DESC, id LIMIT 10",
    "rows with others": "SELECT id FROM r WHERE EXISTS"
    " (SELECT FROM r AS o WHERE o.k = r.k AND o.id <> r.id)",
    "rows without others": "SELECT r.id, o.t FROM r LEFT JOIN r AS o ON o.id = r.id + 5000",
    "sets": "SELECT k FROM r EXCEPT ALL SELECT k + 1 FROM r",
}


@pytest.fixture
def rows(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE r (id int PRIMARY KEY, k int, p numeric, t text, j json)",
        "INSERT INTO r SELECT i, i % 700, CASE WHEN i % 2 = 0 THEN 1.0 ELSE 1.00 END * (i % 900),"
        " 't' || i % 13, '{\"a\": 1}'"
        f" FROM generate_series(1, {_MANY}) AS i",
        "INSERT INTO r VALUES (0, NULL, NULL, NULL, NULL)",
    )
    return lab


def indexes_of_state(lab: Lab) -> list[str]:
    """List the indexes of all state tables, whatever stream table they belong to."""
    found = lab.rows("SELECT indexdef FROM pg_indexes WHERE schemaname = 'pgtrickle_state'")
    return sorted(re.sub(r"\bst_\d+_", "st_", definition) for (definition,) in found)


@pytest.mark.parametrize("engine", ["spark", "postgres"])
@pytest.mark.parametrize("query", _QUERIES.values(), ids=_QUERIES.keys())
def test_filled_state_is_what_changes_are_merged_into(rows: Lab, query: str, engine: str) -> None:
    rows.trickle.create_stream_table("s", query, engine=engine, initialize=False)
    planned = indexes_of_state(rows)

    rows.queries["s"] = query
    rows.trickle.refresh_stream_table("s")
    rows.check("s")

    assert indexes_of_state(rows) == planned
    rows.trickle.alter_stream_table("s", refresh_mode="DIFFERENTIAL")
    rows.window(
        "UPDATE r SET p = p + 1, k = k + 1 WHERE id % 100 = 3",
        "INSERT INTO r SELECT id + 50000, k, p, t, j FROM r WHERE id % 200 = 1",
        "DELETE FROM r WHERE id % 300 = 5",
    )
    rows.trickle.refresh_stream_table("s", full=True)
    rows.check("s")
    assert rows.trickle.verify_stream_table("s").ok


def compiled_again(lab: Lab, made: Compiled) -> Compiled:
    with lab.trickle._runtime.connection() as connection:
        return compile_stream_table(connection, lab.trickle.get_stream_table("s"), made=made)


def test_what_was_compiled_at_creation_is_used_while_it_means_the_same(rows: Lab) -> None:
    query = _QUERIES["many groups"]
    runtime = rows.trickle._runtime
    with runtime.connection() as connection:
        made = compile_query(connection, query, runtime.users_path(None))
    rows.trickle.create_stream_table("s", query, initialize=False)

    assert compiled_again(rows, made).staged is made.staged

    rows.trickle.drop_stream_table("s")
    rows.run("ALTER TABLE r ALTER p TYPE numeric(10, 3)")
    rows.trickle.create_stream_table("s", query, initialize=False)

    found = compiled_again(rows, made)
    assert found.staged is not made.staged
    assert found == compiled_again(rows, found)


def test_what_was_compiled_at_creation_is_handed_on_once(rows: Lab) -> None:
    remembered = Remembered()
    rows.trickle.create_stream_table("s", _QUERIES["no key"])
    table = rows.trickle.get_stream_table("s")
    made = rows.trickle._runtime.remembered.find_compiled(table)
    assert made is not None

    assert rows.trickle._runtime.remembered.take_made(table) is None
    remembered.hand_on(table, made)
    assert remembered.take_made(table) is made
    assert remembered.take_made(table) is None
