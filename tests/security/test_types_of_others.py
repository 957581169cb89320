"""Types of others: their casts and checks never run with the rights of who reads them."""

from __future__ import annotations

import pytest

from pgtrickle.errors import UntrustedTypeError
from tests.labs.lab import Lab
from tests.security.bench import Bench

# What a trap does is not undone by a rollback, and it ends the statement that stepped on it.
STEAL = """
    CREATE FUNCTION mall.steal() RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN
        BEGIN
            PERFORM pg_catalog.nextval('mall.calls');
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
        RAISE EXCEPTION 'stolen by %', current_user;
    END $$
"""
MALL = (
    "CREATE SEQUENCE mall.calls",
    "GRANT ALL ON SEQUENCE mall.calls TO PUBLIC",
    STEAL,
    "CREATE TYPE mall.mood AS ENUM ('sad', 'glad')",
    "CREATE TYPE mall.pair AS (a int, b text)",
    "CREATE DOMAIN mall.code AS text CHECK (length(value) < 9)",
    "CREATE TYPE mall.boxed AS (code mall.code)",
    "CREATE TABLE mall.visits (id int PRIMARY KEY, shop int, mood mall.mood, moods mall.mood[],"
    " pair mall.pair, code mall.code, boxed mall.boxed, codes mall.code[])",
    "INSERT INTO mall.visits VALUES (1, 1, 'sad', '{sad,glad}', '(1,x)', 'c', '(c)', '{c}'),"
    " (2, 1, 'glad', NULL, NULL, NULL, NULL, NULL), (3, 2, 'sad', '{}', '(,)', 'd', '(d)', '{}')",
    "GRANT USAGE ON SCHEMA mall TO {owner}",
    "GRANT SELECT, TRIGGER ON mall.visits TO {owner}",
)
MORE = (
    "INSERT INTO mall.visits VALUES (4, 2, 'glad', '{glad}', '(2,y)')",
    "INSERT INTO mall.visits VALUES (5, 3, 'sad', NULL, '(1,x)')",
    "DELETE FROM mall.visits WHERE id = 1",
    "UPDATE mall.visits SET mood = 'sad', pair = '(9,z)' WHERE id = 2",
)
QUERIES = {
    "shop.copied": "SELECT id, mood, moods, pair FROM mall.visits",
    "shop.joined": "SELECT o.id, v.mood, v.moods, v.pair FROM shop.orders AS o"
    " JOIN mall.visits AS v ON v.id = o.id",
    "shop.grouped": "SELECT mood, moods, count(*) AS n FROM mall.visits GROUP BY mood, moods",
    "shop.ranked": "SELECT mood, row_number() OVER (PARTITION BY mood ORDER BY id) AS n"
    " FROM mall.visits",
    "shop.same": "SELECT a.id, b.id AS other, a.pair FROM mall.visits AS a"
    " JOIN mall.visits AS b ON b.mood = a.mood",
}


def make_mall(bench: Bench) -> None:
    bench.run("admin", "CREATE SCHEMA mall AUTHORIZATION {attacker}")
    bench.run("attacker", *MALL)


def count_calls(bench: Bench) -> int:
    query = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM mall.calls"
    return int(str(bench.value("admin", query)))


def cast(source: str, target: str) -> tuple[str, str]:
    """Return the statements that make a cast whose function is a trap."""
    name = f"cast_{source}_{target}".replace(".", "_").replace("[]", "s")
    return (
        f"CREATE FUNCTION mall.{name}({source}) RETURNS {target} LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM mall.steal(); RETURN NULL; END'",
        f"CREATE CAST ({source} AS {target}) WITH FUNCTION mall.{name}({source})",
    )


CASTS = (
    ("mall.mood", "text"),
    ("mall.mood[]", "text"),
    ("mall.pair", "text"),
    ("text", "mall.pair"),
    ("text", "mall.mood"),
)
MAKE_CASTS = tuple(one for pair in CASTS for one in cast(*pair))


def test_types_of_others_are_followed(bench: Bench):
    make_mall(bench)

    with bench.lab() as lab:
        for name, query in QUERIES.items():
            lab.create(name, query)
        bench.run("attacker", *MORE)
        lab.window()


def test_casts_that_are_made_later_are_not_called(bench: Bench):
    make_mall(bench)
    with bench.lab() as lab:
        for name, query in QUERIES.items():
            lab.create(name, query)
        bench.run("attacker", *MORE, *MAKE_CASTS)

        codes = {code_of(lab, name) for name in QUERIES}

    assert codes == {"ST308"}
    assert count_calls(bench) == 0


def code_of(lab: Lab, name: str, *, full: bool = False) -> str | None:
    try:
        lab.trickle.refresh_stream_table(name, full=full)
    except UntrustedTypeError as error:
        return error.code
    return None


@pytest.mark.parametrize("mode", ["DIFFERENTIAL", "FULL"])
def test_no_cast_is_how_a_value_travels(bench: Bench, mode: str):
    """Not even one of a role that is trusted."""
    make_mall(bench)
    bench.run("attacker", *MAKE_CASTS)
    bench.run("admin", "GRANT {attacker} TO {owner}")

    with bench.lab() as lab:
        for name, query in QUERIES.items():
            lab.create(name, query, mode)
        bench.run("attacker", *MORE)
        for name in QUERIES:
            lab.trickle.refresh_stream_table(name)
            lab.check(name)
            assert lab.trickle.verify_stream_table(name).ok

    assert count_calls(bench) == 0


@pytest.mark.parametrize("column", ["code", "boxed", "codes"])
@pytest.mark.parametrize("who", ["owner", "admin"])
def test_domain_of_others_is_refused(bench: Bench, who: str, column: str):
    make_mall(bench)
    query = f"SELECT id, {column} FROM mall.visits"

    with bench.trickle(who) as trickle:
        with pytest.raises(UntrustedTypeError):
            trickle.create_stream_table("shop.stolen", query)
        [problem] = trickle.validate_query(query).reasons

    assert problem.code == "ST308"
    assert count_calls(bench) == 0


def test_domain_that_becomes_another_s_is_refused(bench: Bench):
    make_mall(bench)
    bench.run(
        "owner",
        "CREATE DOMAIN shop.code AS text",
        "CREATE TABLE shop.coded (id int, code shop.code)",
        "INSERT INTO shop.coded VALUES (1, 'a')",
    )
    with bench.lab() as lab:
        lab.create("shop.codes", "SELECT code, count(*) AS n FROM shop.coded GROUP BY code")
        bench.run(
            "admin",
            "GRANT USAGE ON SCHEMA shop TO {attacker}",
            "ALTER DOMAIN shop.code OWNER TO {attacker}",
        )
        bench.run("attacker", "ALTER DOMAIN shop.code ADD CHECK (mall.steal()) NOT VALID")
        bench.run("admin", "SET session_replication_role = replica")
        bench.run("owner", "DELETE FROM shop.coded")

        with pytest.raises(UntrustedTypeError):
            lab.trickle.refresh_stream_table("shop.codes")

    assert count_calls(bench) == 0


def test_domain_of_a_trusted_role_is_followed(bench: Bench):
    make_mall(bench)
    bench.run("admin", "GRANT {attacker} TO {owner}")

    with bench.lab() as lab:
        lab.create("shop.copied", "SELECT id, code, boxed, codes FROM mall.visits")
        bench.run("attacker", "INSERT INTO mall.visits (id, code) VALUES (7, 'new')")
        lab.window()


def test_range_with_a_function_of_others_is_refused(bench: Bench):
    make_mall(bench)
    bench.run(
        "attacker",
        "CREATE FUNCTION mall.apart(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS"
        " 'BEGIN PERFORM mall.steal(); RETURN 0; END'",
        "CREATE TYPE mall.span AS RANGE (subtype = float8, subtype_diff = mall.apart)",
        "CREATE TABLE mall.spans (id int, span mall.span)",
        "INSERT INTO mall.spans VALUES (1, '[1,2]'), (2, '[3,5]')",
        "GRANT SELECT, TRIGGER ON mall.spans TO {owner}",
    )

    with bench.trickle() as trickle, pytest.raises(UntrustedTypeError):
        trickle.create_stream_table("shop.spans", "SELECT id, span FROM mall.spans")

    assert count_calls(bench) == 0
