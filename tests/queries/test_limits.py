"""Queries too large or too deep: a coded error, at once, and never a crash."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from pgtrickle.errors import (
    CompileTimeoutError,
    QueryRejectedError,
    QueryTooLargeError,
    TrickleError,
    UnsupportedQueryError,
)
from pgtrickle.sql.text.limits import MAX_INPUTS
from tests.labs.lab import Lab

_SOON = 10.0  # seconds; it takes a fraction of one, unless something explodes


@pytest.fixture
def tables(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v text)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')",
    )
    return lab


def refused(lab: Lab, query: str, mode: str = "DIFFERENTIAL") -> TrickleError:
    """Return the refusal of a query, which must come soon and leave nothing behind."""
    started = time.monotonic()
    with pytest.raises(TrickleError) as caught:
        lab.trickle.create_stream_table("made", query, refresh_mode=mode)
    assert time.monotonic() - started < _SOON
    assert caught.value.hint
    assert lab.leftovers() == []
    return caught.value


def _in(count: int) -> str:
    return f"SELECT id FROM t WHERE k IN ({','.join(map(str, range(count)))})"


def _nested(count: int) -> str:
    return f"SELECT id FROM {'(SELECT id FROM ' * count}t{') AS x' * count}"


TOO_LARGE = {
    "a million literals": _in(1_000_000),
    "a hundred thousand literals": _in(100_000),
    "a million rows of values": "SELECT id FROM t JOIN (VALUES "
    + ",".join(f"({n})" for n in range(100_000))
    + ") AS v (n) ON v.n = t.id",
    "a very long literal": f"SELECT '{'x' * 2_000_000}' AS x FROM t",
    "subqueries in subqueries": _nested(1_000),
    "parentheses": f"SELECT {'(' * 1_000}id{')' * 1_000} AS x FROM t",
    "functions of functions": f"SELECT {'abs(' * 1_000}id{')' * 1_000} AS x FROM t",
    "CASE in CASE": f"SELECT {'CASE WHEN id = 1 THEN 1 ELSE ' * 999}id{' END' * 999} AS x FROM t",
    "a sum of 5,000 terms": f"SELECT {'+'.join(['id'] * 5_000)} AS x FROM t",
    "a CUBE of 13 columns": "SELECT count(*) FROM t GROUP BY CUBE ("
    + ",".join(f"(id + {n})" for n in range(13))
    + ")",
}


@pytest.mark.parametrize("query", TOO_LARGE.values(), ids=TOO_LARGE.keys())
@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "AUTO", "FULL"])
def test_too_large_is_st108_in_every_mode_and_soon(tables: Lab, query: str, mode: str) -> None:
    assert isinstance(refused(tables, query, mode), QueryTooLargeError)


def _kept(count: int) -> str:
    """Write CTEs that each use the one before twice, and are kept."""
    return "WITH c0 AS (SELECT id FROM t), " + ", ".join(
        f"c{n} AS (SELECT DISTINCT a.id FROM c{n - 1} AS a JOIN c{n - 1} AS b ON b.id = a.id)"
        for n in range(1, count)
    )


# PostgreSQL answers these, so AUTO runs them in full.
TOO_MUCH_TO_MAINTAIN = {
    "a sum of 300 terms": f"SELECT {'+'.join(['id'] * 300)} AS x FROM t",
    "a concatenation of 400 pieces": f"SELECT {'||'.join(['v'] * 400)} AS x FROM t",
    "a CUBE of 7 columns": "SELECT count(*) AS n FROM t GROUP BY CUBE ("
    + ",".join(f"(id + {n})" for n in range(7))
    + ")",
    "a CUBE of 12 columns": "SELECT count(*) AS n FROM t GROUP BY CUBE ("
    + ",".join(f"(id + {n})" for n in range(12))
    + ")",
    "CUBEs of CUBEs": "SELECT a, count(*) AS n FROM (SELECT id AS a, k AS b, v AS c, count(*) AS n"
    " FROM t GROUP BY CUBE (id, k, v, id + 1, id + 2, id + 3)) AS x GROUP BY CUBE (a, b, c, n)",
    "too many tables": " UNION ALL ".join(["SELECT id FROM t"] * (MAX_INPUTS + 1)),
    "CTEs that double": "WITH c0 AS (SELECT id FROM t), "
    + ", ".join(
        f"c{n} AS (SELECT a.id FROM c{n - 1} AS a JOIN c{n - 1} AS b ON b.id = a.id)"
        for n in range(1, 40)
    )
    + " SELECT id FROM c39 WHERE false",
    "too many tables in all steps": "SELECT count(*) AS n FROM t AS t0 "
    + " ".join(f"JOIN t AS t{n} ON t{n}.id = t{n - 1}.id" for n in range(1, 16))
    + " GROUP BY CUBE (t0.k, t1.k, t2.k, t3.k, t4.k, t5.k)",
}


@pytest.mark.parametrize("query", TOO_MUCH_TO_MAINTAIN.values(), ids=TOO_MUCH_TO_MAINTAIN.keys())
def test_too_much_to_maintain_is_st102_and_full_under_auto(tables: Lab, query: str) -> None:
    with pytest.raises(UnsupportedQueryError) as caught:
        tables.trickle.create_stream_table("made", query, refresh_mode="DIFFERENTIAL")
    assert caught.value.hint
    assert tables.leftovers() == []

    tables.trickle.create_stream_table("made", query, initialize=False)
    assert tables.trickle.get_stream_table("made").effective_refresh_mode.value == "FULL"


LARGE_ENOUGH = {
    "a thousand literals": _in(1_000),
    "subqueries": _nested(100),
    "a sum": f"SELECT {'+'.join(['id'] * 150)} AS x FROM t",
    "conditions": "SELECT id FROM t WHERE " + " AND ".join(f"k <> {n}" for n in range(3, 300)),
    "a chain of joins": "SELECT t0.id FROM t AS t0 "
    + " ".join(f"JOIN t AS t{n} ON t{n}.id = t{n - 1}.id" for n in range(1, 12)),
    "a CUBE": "SELECT id, k, v, count(*) AS n FROM t GROUP BY CUBE (id, k, v)",
    "twenty steps that each use the one before twice": f"{_kept(21)} SELECT id FROM c20",
    "a group that is used a hundred times": "WITH x AS (SELECT k, count(*) AS n FROM t GROUP BY k) "
    + " UNION ALL ".join(f"SELECT k, n + {number} AS n FROM x" for number in range(100)),
}


@pytest.mark.parametrize("query", LARGE_ENOUGH.values(), ids=LARGE_ENOUGH.keys())
def test_large_queries_within_the_limits_are_maintained(tables: Lab, query: str) -> None:
    tables.create("made", query)

    tables.window("INSERT INTO t VALUES (3, 2, 'c')", "DELETE FROM t WHERE id = 1")


def test_depth_does_not_depend_on_the_thread(tables: Lab) -> None:
    """A thread has less stack than the main one has."""
    query = f"SELECT {'+'.join(['id'] * 190)} AS x FROM t"
    thread = threading.Thread(target=tables.create, args=("made", query))
    thread.start()
    thread.join()

    tables.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_depth_that_views_add_up_to_is_a_refusal(tables: Lab) -> None:
    """No text nests too deep; the expression that comes of all of them does."""
    tables.run("CREATE VIEW v0 AS SELECT id FROM t")
    for n in range(1, 8):
        tables.run(
            f"CREATE VIEW v{n} AS SELECT {'+'.join(['id'] + ['1'] * 150)} AS id FROM v{n - 1}"
        )

    with pytest.raises(UnsupportedQueryError, match="nests this deep"):
        tables.trickle.create_stream_table("made", "SELECT id FROM v7", refresh_mode="DIFFERENTIAL")
    assert tables.leftovers() == []


def test_views_that_form_a_cycle_are_st107(tables: Lab) -> None:
    tables.run(
        "CREATE VIEW a AS SELECT id FROM t",
        "CREATE VIEW b AS SELECT id FROM a",
        "CREATE OR REPLACE VIEW a AS SELECT id FROM b",
    )

    assert isinstance(refused(tables, "SELECT id FROM a", "AUTO"), QueryRejectedError)
    tables.run("CREATE OR REPLACE VIEW a AS SELECT id FROM t")
    tables.create("made", "SELECT id FROM b")


def test_a_view_that_becomes_a_cycle_fails_its_stream_table_with_a_code(tables: Lab) -> None:
    tables.run("CREATE VIEW a AS SELECT id FROM t", "CREATE VIEW b AS SELECT id FROM a")
    tables.create("made", "SELECT id FROM b")
    tables.run("CREATE OR REPLACE VIEW a AS SELECT id FROM b", "INSERT INTO t VALUES (3)")

    with pytest.raises(TrickleError) as caught:
        tables.trickle.refresh_stream_table("made")

    assert caught.value.code in {"ST107", "ST302"}
    tables.run("CREATE OR REPLACE VIEW a AS SELECT id FROM t")
    tables.refresh("made", "REINITIALIZE")


def test_views_nest_deep(tables: Lab) -> None:
    tables.run("CREATE VIEW v0 AS SELECT id, k FROM t")
    for depth in range(1, 102):
        tables.run(f"CREATE VIEW v{depth} AS SELECT id, k FROM v{depth - 1}")

    assert isinstance(refused(tables, "SELECT id FROM v101"), QueryRejectedError)
    tables.create("made", "SELECT id, k FROM v60")
    tables.window("UPDATE t SET k = 7")


def test_compiling_longer_than_allowed_is_st112_in_every_mode_and_leaves_nothing(
    tables: Lab,
) -> None:
    query = "SELECT t0.id FROM t AS t0 " + " ".join(
        f"LEFT JOIN t AS t{n} ON t{n}.id = t{n - 1}.k" for n in range(1, 40)
    )
    runtime = tables.trickle._runtime
    settings = runtime.settings
    runtime.settings = replace(settings, compile_timeout_ms=100)
    try:
        for mode in ("DIFFERENTIAL", "AUTO", "FULL"):
            error = refused(tables, query, mode)
            assert isinstance(error, CompileTimeoutError)
            assert error.code == "ST112"
            assert "compile_timeout_ms" in error.hint
        assert [one.code for one in tables.trickle.validate_query(query).reasons] == ["ST112"]
    finally:
        runtime.settings = settings

    tables.trickle.create_stream_table("made", query, initialize=False)
