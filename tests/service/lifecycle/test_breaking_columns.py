"""Columns that are dropped, retyped and reordered by a new query, and what depends on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from pgtrickle.errors import ColumnsDifferError, DependentsExistError, PrivilegeError
from tests.labs.lab import Lab
from tests.service.lifecycle.test_replace_query import SHOP, assert_as_it_was, identity
from tests.service.lifecycle.test_shadow_builds import settings, status

OLD = "SELECT k, sum(v) AS v, count(*) AS n, min(id) AS least FROM t GROUP BY k"
REORDERED = "SELECT sum(v) AS v, k, min(id) AS least, count(*) AS n FROM t GROUP BY k"
RETYPED = "SELECT k, sum(v)::numeric(12,2) AS v, count(*) AS n, min(id) AS least FROM t GROUP BY k"
DROPPED = "SELECT k, count(*) AS n, sum(v) AS v FROM t GROUP BY k"
FIRST = "SELECT max(v) AS most, k, sum(v) AS v, count(*) AS n, min(id) AS least FROM t GROUP BY k"


@pytest.fixture
def shop(lab: Lab) -> Iterator[Lab]:
    lab.run(*SHOP, "DROP ROLE IF EXISTS clerk", "CREATE ROLE clerk", "CREATE ROLE guest_of_s")
    lab.create("s", OLD)
    with settings(lab, shadow_refresh_throttle_ms=0):
        yield lab
    lab.run("DROP OWNED BY clerk, guest_of_s", "DROP ROLE clerk", "DROP ROLE guest_of_s")


def at_once(lab: Lab, query: str) -> None:
    lab.trickle.alter_stream_table("s", query=query, allow_breaking=True)


def by_shadow(lab: Lab, query: str) -> None:
    lab.trickle.alter_stream_table("s", query=query, allow_breaking=True, shadow_build=True)


def columns(lab: Lab, relation: str) -> Any:
    return lab.value(
        "SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attnum)"
        f" FROM pg_attribute WHERE attrelid = '{relation}'::regclass AND attnum > 0"
        " AND NOT attisdropped"
    )


def wanted(lab: Lab, query: str) -> Any:
    lab.run(f"CREATE VIEW wanted AS {query}")
    found = columns(lab, "wanted")
    lab.run("DROP VIEW wanted")
    return found


@pytest.mark.parametrize("change", [at_once, by_shadow])
@pytest.mark.parametrize("query", [REORDERED, RETYPED, DROPPED, FIRST])
def test_columns_become_those_of_the_query(
    shop: Lab, query: str, change: Callable[[Lab, str], None]
):
    before = identity(shop)
    shop.run("GRANT SELECT ON s TO clerk")

    change(shop, query)
    shop.queries["s"] = query
    shop.check("s")

    assert columns(shop, "s") == wanted(shop, query)
    assert identity(shop) == before
    assert shop.value("SELECT has_table_privilege('clerk', 's', 'SELECT')")
    shop.window("UPDATE t SET v = v + 7 WHERE id < 9", "DELETE FROM t WHERE k = 4")
    shop.trickle.drop_stream_table("s")
    assert shop.leftovers() == []


def views(lab: Lab) -> dict[str, Any]:
    found = lab.rows(
        "SELECT c.relname, c.relacl::text, c.reloptions::text, obj_description(c.oid),"
        " col_description(c.oid, 1), pg_get_userbyid(c.relowner),"
        " (SELECT a.attacl::text FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attnum = 1)"
        " FROM pg_class AS c WHERE c.relkind = 'v' AND c.relnamespace = 'public'::regnamespace"
    )
    return {name: facts for name, *facts in found}


VIEWS = (
    "CREATE VIEW of_s WITH (security_barrier) AS SELECT v, k FROM s WHERE n > 0",
    "CREATE VIEW of_view AS SELECT o.k, o.v + 1 AS more FROM of_s AS o JOIN s USING (k)",
    "CREATE VIEW only_k AS SELECT k FROM s",
    "COMMENT ON VIEW of_s IS 'it''s mine'",
    "COMMENT ON COLUMN of_s.v IS 'the sum'",
    "GRANT SELECT ON of_s TO clerk WITH GRANT OPTION",
    "GRANT SELECT (v) ON of_s TO guest_of_s",
    "GRANT SELECT ON of_view TO PUBLIC",
    "COMMENT ON COLUMN s.v IS 'of s'",
    "GRANT SELECT (v) ON s TO guest_of_s",
    "CREATE INDEX s_by_v ON s (v DESC) WHERE n > 0",
)


@pytest.mark.parametrize("query", [REORDERED, RETYPED, FIRST])
def test_views_grants_comments_and_indexes_are_carried_over(shop: Lab, query: str):
    shop.run(*VIEWS)
    before = views(shop)
    oids: dict[str, int] = dict(
        shop.rows("SELECT relname, oid::int8 FROM pg_class WHERE relname ~ '^(of|only)_'")
    )
    # Whoever may read what is created anew must not thereby get more than he had.
    shop.run("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO guest_of_s")

    by_shadow(shop, query)

    assert views(shop) == before
    after: dict[str, int] = dict(
        shop.rows("SELECT relname, oid::int8 FROM pg_class WHERE relname ~ '^(of|only)_'")
    )
    # Only a view whose own columns have other types is another one.
    anew = {name for name in oids if oids[name] != after[name]}
    assert anew == ({"of_s", "of_view"} if query == RETYPED else set())
    assert shop.rows("SELECT v, k FROM of_s") == shop.rows(f"SELECT v, k FROM ({query}) AS q")
    assert shop.value("SELECT count(*) FROM of_view") == 5
    assert (
        shop.value(
            "SELECT col_description('s'::regclass, attnum) FROM pg_attribute"
            " WHERE attrelid = 's'::regclass AND attname = 'v'"
        )
        == "of s"
    )
    assert shop.value("SELECT has_column_privilege('guest_of_s', 's', 'v', 'SELECT')")
    assert "(v DESC) WHERE (n > 0)" in shop.value("SELECT pg_get_indexdef('s_by_v'::regclass)")
    shop.run("ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM guest_of_s")


def test_what_depends_on_a_dropped_column_is_listed_first(shop: Lab):
    shop.run(
        "CREATE VIEW of_s AS SELECT k, least FROM s",
        "CREATE MATERIALIZED VIEW kept AS SELECT least FROM s",
        "CREATE VIEW fine AS SELECT v FROM s",
    )
    with pytest.raises(DependentsExistError) as caught:
        by_shadow(shop, "SELECT v, k FROM (" + OLD + ") AS q")

    assert caught.value.detail == (
        "column least: materialized view public.kept; column least: view public.of_s"
    )
    assert shop.trickle.shadows.view_evolution_status("s") is None
    shop.queries["s"] = OLD
    assert_as_it_was(shop)


@pytest.mark.parametrize(
    ("made", "error"),
    [
        ("CREATE MATERIALIZED VIEW m AS SELECT v FROM s", DependentsExistError),
        (
            "CREATE FUNCTION total() RETURNS numeric BEGIN ATOMIC SELECT sum(v) FROM s; END",
            DependentsExistError,
        ),
        ("ALTER TABLE s ADD CONSTRAINT one UNIQUE (v)", DependentsExistError),
        ("CREATE VIEW w AS SELECT v FROM s; CREATE MATERIALIZED VIEW m AS TABLE w",
         DependentsExistError),
        ("CREATE VIEW w AS SELECT v FROM s; ALTER VIEW w ALTER v SET DEFAULT 1",
         DependentsExistError),
        ("CREATE VIEW w AS SELECT v || 'x' AS x FROM (SELECT v::text FROM s) AS q", None),
        ("CREATE VIEW w AS SELECT v FROM s; GRANT SELECT ON s TO clerk;"
         " GRANT CREATE ON SCHEMA public TO clerk; ALTER VIEW w OWNER TO clerk", PrivilegeError),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over_is_refused_by_name(
    shop: Lab, made: str, error: type[Exception] | None
):
    shop.run(*made.split("; ") if "ATOMIC" not in made else [made])
    if error is None:
        by_shadow(shop, RETYPED)
        assert shop.value("SELECT count(*) FROM w") == 5
        return
    with pytest.raises(error) as caught:
        by_shadow(shop, RETYPED)

    assert "Drop" in str(getattr(caught.value, "hint", "")) or "drop" in caught.value.hint  # type: ignore[attr-defined]
    assert_as_it_was(shop)


def test_readers_of_retyped_columns_are_named_and_of_moved_ones_follow(shop: Lab):
    shop.create("top", "SELECT k, n FROM s")
    by_shadow(shop, REORDERED)
    shop.queries["s"] = REORDERED
    shop.check("s")
    shop.refresh("top", "REINITIALIZE")
    shop.window("UPDATE t SET v = v + 7 WHERE id < 9", "DELETE FROM t WHERE k = 4 AND id > 9")

    with pytest.raises(DependentsExistError, match=r"public\.top.*another type: n") as caught:
        by_shadow(shop, REORDERED.replace("count(*)", "count(*)::int"))

    assert caught.value.hint


def test_view_that_comes_meanwhile_ends_the_build_or_is_carried_over(shop: Lab):
    shop.trickle.alter_stream_table(
        "s", query=DROPPED, allow_breaking=True, shadow_build=True, hold=True
    )
    shop.run("CREATE VIEW late AS SELECT least FROM s")
    with pytest.raises(DependentsExistError):
        shop.trickle.shadows.promote_shadow("s")
    shop.run("DROP VIEW late", "CREATE VIEW late AS SELECT v FROM s")

    shop.trickle.shadows.promote_shadow("s")

    assert status(shop).state == "promoted"
    assert shop.rows("TABLE late") == shop.rows(f"SELECT v FROM ({DROPPED}) AS q")


def test_without_permission_they_are_refused(shop: Lab):
    with pytest.raises(ColumnsDifferError) as caught:
        shop.trickle.alter_stream_table("s", query=REORDERED, shadow_build=True)

    assert "--allow-breaking" in caught.value.hint
    assert_as_it_was(shop)


def test_copy_in_the_lake_is_refused(shop: Lab, tmp_path: Any):
    shop.trickle.alter_stream_table("s", sink="ducklake", ducklake_sink_path=str(tmp_path))

    with pytest.raises(ColumnsDifferError, match="lake"):
        by_shadow(shop, REORDERED)


def test_comparison_tells_how_the_columns_change(shop: Lab):
    query = "SELECT max(id) AS most, k, sum(v)::text AS v, count(*) AS n FROM t GROUP BY k"
    shop.trickle.alter_stream_table(
        "s", query=query, allow_breaking=True, shadow_build=True, hold=True
    )

    found = shop.trickle.shadows.compare_shadow("s")

    assert (found.columns_added, found.columns_dropped) == (("most",), ("least",))
    assert found.columns_retyped == ('v is bigint, and would be text COLLATE "default"',)
    assert found.compared_columns == ("k", "n")
    assert (found.rows_added, found.rows_removed) == (0, 0)
    assert not found.same


def test_readers_of_table_and_views_wait_and_never_fail(shop: Lab):
    """Not once does a query see a column that is missing, a half, or an error."""
    shop.run(*VIEWS)
    old, new = shop.rows(OLD), shop.rows(REORDERED)
    right = {tuple(sorted((k, v) for k, v, *_ in old)), tuple(sorted((k, v) for v, k, *_ in new))}
    seen: set[object] = set()
    with psycopg.connect(shop.trickle.dsn, autocommit=True) as reader:
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                for one in ("s", "of_s"):
                    rows = reader.execute(f"SELECT k, v FROM {one}".encode()).fetchall()
                    seen.add(tuple(sorted(rows)))

        thread = threading.Thread(target=read)
        thread.start()
        try:
            by_shadow(shop, REORDERED)
        finally:
            done.set()
            thread.join()

    assert seen <= right


def test_writers_go_on_maintaining_it_with_other_columns(shop: Lab):
    shop.trickle.alter_stream_table("s", refresh_mode="IMMEDIATE")
    shop.run("CREATE VIEW of_s AS SELECT v, k FROM s")

    at_once(shop, REORDERED)
    shop.run("UPDATE t SET v = v + 7 WHERE id < 9", "DELETE FROM t WHERE k = 4")

    shop.queries["s"] = REORDERED
    shop.check("s")
    assert shop.rows("TABLE of_s") == shop.rows(f"SELECT v, k FROM ({REORDERED}) AS q")
