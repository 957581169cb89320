"""Planning bombs: a small text that would take PostgreSQL hours and all memory to plan.

Each holds a call that PostgreSQL makes while it plans, of an immutable function with a constant:
if the text was planned, that has failed, with another code.  The timeout keeps the machine alive
where a bomb is planned all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import pytest

from pgtrickle.errors import TrickleError
from tests.security.bench import Bench

_SOON = 5.0  # seconds, on a machine that does other things too; it takes a tenth of one


@pytest.fixture
def mined(bench: Bench) -> Bench:
    """Let no statement of the owner's take long, and let planning be noticed."""
    bench.run("admin", "ALTER ROLE {owner} SET statement_timeout = '4s'")
    bench.run(
        "owner",
        "CREATE FUNCTION shop.noticed(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS"
        " $$BEGIN RAISE EXCEPTION 'planned'; END$$",
    )
    return bench


def refused(bench: Bench, query: str, mode: str = "AUTO") -> str:
    """Return the code with which a query is refused, at once and unplanned."""
    started = time.monotonic()
    with bench.trickle() as trickle:
        started = time.monotonic()
        with pytest.raises(TrickleError) as caught:
            trickle.create_stream_table("shop.made", query, refresh_mode=mode)
        taken = time.monotonic() - started
    assert caught.value.hint
    assert "planned" not in str(caught.value)
    assert taken < _SOON
    return caught.value.code


def _joins(count: int) -> str:
    return "SELECT t0.id FROM shop.orders AS t0 " + " ".join(
        f"JOIN shop.orders AS t{n} ON t{n}.id = t{n - 1}.id" for n in range(1, count)
    )


def _ctes(count: int) -> str:
    doubled = ", ".join(
        f"c{n} AS NOT MATERIALIZED (SELECT a.id FROM c{n - 1} AS a, c{n - 1} AS b)"
        for n in range(1, count)
    )
    return (
        f"WITH c0 AS NOT MATERIALIZED (SELECT id FROM shop.orders), {doubled}"
        f" SELECT id FROM c{count - 1} AS x"
    )


def _doubled(count: int) -> str:
    query = "SELECT region AS r FROM shop.orders"
    for _ in range(count):
        query = f"SELECT r || r AS r FROM ({query}) AS x"
    return f"SELECT r FROM ({query}) AS y"


def _subqueries(count: int) -> str:
    query = "SELECT id AS r FROM shop.orders"
    for _ in range(count):
        query = (
            f"SELECT (SELECT max(amount) FROM shop.orders WHERE id > r + r) AS r FROM ({query}) x"
        )
    return f"SELECT r FROM ({query}) AS y"


BOMBS = {
    "199 self-joins": _joins(199),
    "199 tables in one FROM": "SELECT t0.id FROM "
    + ", ".join(f"shop.orders AS t{n}" for n in range(199)),
    "CTEs that double": _ctes(20),
    "columns that double": _doubled(60),
    "subqueries that double": _subqueries(60),
    "199 subqueries in a condition": "SELECT id FROM shop.orders AS o WHERE "
    + " AND ".join(["EXISTS (SELECT FROM shop.orders AS i WHERE i.id = o.id)"] * 199),
}


@pytest.mark.parametrize("query", BOMBS.values(), ids=BOMBS.keys())
def test_bomb_is_refused_before_it_is_planned(mined: Bench, query: str):
    word = "AND" if query == BOMBS["199 subqueries in a condition"] else "WHERE"

    assert refused(mined, f"{query} {word} shop.noticed(1)") == "ST108"


def test_views_that_double_are_refused_before_they_are_planned(mined: Bench):
    mined.run("owner", "CREATE VIEW shop.v0 AS SELECT id FROM shop.orders WHERE shop.noticed(1)")
    for n in range(1, 21):
        mined.run(
            "owner",
            f"CREATE VIEW shop.v{n} AS SELECT a.id FROM shop.v{n - 1} AS a, shop.v{n - 1} AS b",
        )

    assert refused(mined, "SELECT id FROM shop.v20") == "ST108"
    assert refused(mined, "SELECT count(*) AS n FROM shop.v20") == "ST108"


def test_view_that_becomes_a_bomb_is_not_planned_by_any_verb(mined: Bench):
    mined.run("owner", "CREATE VIEW shop.seen AS SELECT id FROM shop.orders")
    with mined.trickle() as trickle:
        trickle.create_stream_table("shop.made", "SELECT id FROM shop.seen")
    mined.run("owner", f"CREATE OR REPLACE VIEW shop.seen AS {_joins(199)} WHERE shop.noticed(1)")

    verbs: list[Callable[[], object]] = []
    with mined.trickle() as trickle:
        verbs += [
            lambda: trickle.refresh_stream_table("shop.made"),
            lambda: trickle.verify_stream_table("shop.made"),
            lambda: trickle.explain_stream_table("shop.made"),
        ]
        for verb in verbs:
            with pytest.raises(TrickleError) as caught:
                verb()
            assert caught.value.code == "ST108"


def test_query_that_may_not_be_read_is_not_planned(mined: Bench):
    mined.run("admin", "CREATE SCHEMA closed", "CREATE TABLE closed.t (id int, secret int)")
    mined.run("admin", "GRANT USAGE ON SCHEMA closed TO {owner}")
    mined.run("admin", "GRANT SELECT (id) ON closed.t TO {owner}")

    for query in (
        "SELECT secret FROM closed.t WHERE shop.noticed(1)",
        "SELECT t AS whole, id FROM closed.t WHERE secret > 0 AND shop.noticed(1)",
    ):
        assert refused(mined, query) == "ST303"


def test_view_reads_with_the_rights_of_its_owner_unless_it_says_otherwise(mined: Bench):
    mined.run(
        "admin",
        "CREATE SCHEMA closed",
        "CREATE TABLE closed.t (id int)",
        "CREATE VIEW closed.seen AS SELECT id FROM closed.t",
        "CREATE VIEW closed.asked WITH (security_invoker = true) AS"
        " SELECT id FROM closed.t WHERE shop.noticed(1)",
        "GRANT USAGE ON SCHEMA closed TO {owner}",
        "GRANT SELECT ON closed.seen, closed.asked TO {owner}",
    )

    assert refused(mined, "SELECT id FROM closed.asked") == "ST303"
    with mined.trickle() as trickle:
        assert trickle.validate_query("SELECT id FROM closed.seen").columns


def test_function_that_may_not_be_called_is_not_planned(mined: Bench):
    mined.run("admin", "GRANT CREATE ON DATABASE {database} TO {attacker}")
    mined.run(
        "attacker",
        "CREATE SCHEMA theirs",
        "GRANT USAGE ON SCHEMA theirs TO {owner}",
        "CREATE FUNCTION theirs.f(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1'",
        "REVOKE ALL ON FUNCTION theirs.f FROM PUBLIC",
    )

    query = "SELECT theirs.f(id) AS f FROM shop.orders WHERE shop.noticed(1)"
    assert refused(mined, query) == "ST303"


def test_planning_that_takes_too_long_ends_with_a_code(bench: Bench, monkeypatch):
    monkeypatch.setenv("PGTRICKLE_PLANNING_TIMEOUT_SECONDS", "0.3")
    bench.run(
        "owner",
        "CREATE FUNCTION shop.slow(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS"
        " $$BEGIN PERFORM pg_sleep(20); RETURN true; END$$",
    )

    assert refused(bench, "SELECT id FROM shop.orders WHERE shop.slow(1)") == "ST108"


HIDDEN = {
    "a comment that a carriage return ends": "--\r",
    "a comment in a comment": "/* /* */ */",
    "a string with an escaped quote": "E'\\'' = '--' OR ",
}


@pytest.mark.parametrize("cover", HIDDEN.values(), ids=HIDDEN.keys())
def test_nothing_hides_from_the_measure(mined: Bench, cover: str):
    long = " OR ".join(["id = 1"] * 10_000)

    assert refused(mined, f"SELECT id FROM shop.orders WHERE {cover}{long}") == "ST108"


def test_text_is_read_as_it_is_measured(bench: Bench):
    """With strings that know escapes, what follows would be a part of the text."""
    with bench.trickle():
        pass
    bench.run("admin", "ALTER ROLE {owner} SET standard_conforming_strings = off")

    with bench.trickle() as trickle:
        found = trickle.validate_query(
            r"""SELECT id, '\' AS sign, region AS "'" FROM shop.orders"""
        )

    assert [column.name for column in found.columns] == ["id", "sign", "'"]


def test_server_lives_on(mined: Bench):
    for query in (BOMBS["columns that double"], BOMBS["199 self-joins"]):
        refused(mined, f"{query} WHERE shop.noticed(1)")

    with psycopg.connect(mined.dsn) as connection:
        connection.execute("SELECT 1")
