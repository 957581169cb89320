"""A query means what it meant when it was created: nobody changes that behind its owner's back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import TrickleError
from tests.security.bench import Bench

# What an attacker's function does when it is called: it leaves its caller's name, once for all.
SPY = "RAISE EXCEPTION 'the code of % runs as %', '{attacker}', current_user;"
BODY = f" LANGUAGE plpgsql IMMUTABLE AS $$BEGIN {SPY} END$$"
PRODUCTS = (
    "CREATE TABLE shop.products (id int PRIMARY KEY, name varchar(20))",
    "INSERT INTO shop.products VALUES (1, 'Tea'), (2, 'JAM')",
)


@pytest.fixture
def mart(bench: Bench) -> Bench:
    """Let anybody create in ``public``, as databases from before PostgreSQL 15 do."""
    bench.run("admin", "GRANT CREATE, USAGE ON SCHEMA public TO PUBLIC")
    bench.run("owner", *PRODUCTS, "GRANT SELECT ON shop.products TO {attacker}")
    return bench


def create(bench: Bench, name: str, query: str) -> None:
    with bench.trickle() as trickle:
        trickle.create_stream_table(name, query)


def code_of(bench: Bench, call: Callable[[Trickle], object]) -> str:
    """Return the code with which a new process refuses."""
    with bench.trickle() as trickle, pytest.raises(TrickleError) as caught:
        call(trickle)
    assert caught.value.hint
    assert "runs as" not in str(caught.value)
    return caught.value.code


def refresh(name: str) -> Callable[[Trickle], object]:
    return lambda trickle: trickle.refresh_stream_table(name)


def rows(bench: Bench, name: str) -> object:
    return bench.value("owner", f"SELECT array_agg(t::text ORDER BY t::text) FROM {name} AS t")


def test_overload_of_a_built_in_function_is_not_found(mart: Bench):
    create(mart, "shop.names", "SELECT id, lower(name) AS name FROM shop.products")

    mart.run("attacker", "CREATE FUNCTION public.lower(varchar) RETURNS text" + BODY)
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    with mart.trickle() as trickle:
        trickle.refresh_stream_table("shop.names")
        assert trickle.verify_stream_table("shop.names").ok
    assert rows(mart, "shop.names") == ["(1,tea)", "(2,jam)", "(3,oil)"]


def test_operator_that_fits_better_is_not_found(mart: Bench):
    create(mart, "shop.tea", "SELECT id FROM shop.products WHERE name = 'Tea'")

    mart.run(
        "attacker",
        "CREATE FUNCTION public.equal(varchar, varchar) RETURNS boolean" + BODY,
        "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.equal)",
    )
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Tea')")

    with mart.trickle() as trickle:
        trickle.refresh_stream_table("shop.tea")
        assert trickle.verify_stream_table("shop.tea").ok
    assert rows(mart, "shop.tea") == ["(1)", "(3)"]


def test_table_that_is_earlier_on_the_path_is_not_read(mart: Bench):
    mart.run("admin", "CREATE SCHEMA early AUTHORIZATION {attacker}")
    mart.run("attacker", "GRANT USAGE ON SCHEMA early TO PUBLIC")
    mart.run("admin", "ALTER ROLE {owner} SET search_path = early, shop, public")
    create(mart, "shop.names", "SELECT id, name FROM products")

    mart.run(
        "attacker",
        "CREATE TABLE early.products (id int, name varchar(20))",
        "INSERT INTO early.products VALUES (7, 'poison')",
        "GRANT ALL ON early.products TO PUBLIC",
    )
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    with mart.trickle() as trickle:
        trickle.refresh_stream_table("shop.names", full=True)
    assert rows(mart, "shop.names") == ["(1,Tea)", "(2,JAM)", "(3,Oil)"]


def test_overload_of_a_function_of_ours_is_not_found_where_casts_are_written_out(mart: Bench):
    mart.run(
        "owner",
        "CREATE FUNCTION public.plain(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1'",
    )
    create(mart, "shop.names", "SELECT id, public.plain(name) AS name FROM shop.products")

    mart.run("attacker", "CREATE FUNCTION public.plain(varchar) RETURNS text" + BODY)
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    with mart.trickle() as trickle:
        trickle.refresh_stream_table("shop.names")
    assert rows(mart, "shop.names") == ["(1,Tea)", "(2,JAM)", "(3,Oil)"]


# PostgreSQL prints a call of it without a cast, so that a later one may fit better.
ACCENT = (
    "CREATE FUNCTION public.accent(anyelement) RETURNS anyelement LANGUAGE sql IMMUTABLE"
    " AS 'SELECT $1'"
)
OTHER = (
    "CREATE OR REPLACE FUNCTION public.accent(anyelement) RETURNS anyelement LANGUAGE plpgsql"
    f" IMMUTABLE AS $$BEGIN {SPY} END$$"
)
BETTER = "CREATE FUNCTION public.accent(varchar) RETURNS varchar" + BODY
EVERY_VERB = {
    "refresh": refresh("shop.names"),
    "verify": lambda trickle: trickle.verify_stream_table("shop.names"),
    "explain": lambda trickle: trickle.explain_stream_table("shop.names"),
    "mode": lambda trickle: trickle.alter_stream_table("shop.names", refresh_mode="DIFFERENTIAL"),
}


@pytest.mark.parametrize("verb", EVERY_VERB.values(), ids=EVERY_VERB.keys())
def test_overload_of_a_function_of_ours_stops_every_verb(
    mart: Bench, verb: Callable[[Trickle], object]
):
    mart.run("owner", ACCENT)
    create(mart, "shop.names", "SELECT id, public.accent(name) AS name FROM shop.products")

    mart.run("attacker", BETTER)
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    assert code_of(mart, verb) == "ST306"


def test_overload_stops_a_process_that_has_compiled_before(mart: Bench):
    mart.run("owner", ACCENT)
    with mart.trickle() as trickle:
        trickle.create_stream_table(
            "shop.names", "SELECT id, public.accent(name) AS name FROM shop.products"
        )
        mart.run("attacker", BETTER)
        mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

        with pytest.raises(TrickleError) as caught:
            trickle.refresh_stream_table("shop.names")

    assert caught.value.code == "ST306"
    assert "public.accent(character varying)" in str(caught.value)


def test_overload_that_appears_during_a_refresh_is_not_committed(mart: Bench):
    mart.run("owner", ACCENT)
    with mart.lab() as lab:
        lab.create("shop.names", "SELECT id, public.accent(name) AS name FROM shop.products")
        mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")
        lab.before_next_stage(lambda: mart.run("attacker", BETTER))

        with pytest.raises(TrickleError) as caught:
            lab.trickle.refresh_stream_table("shop.names")

    assert caught.value.code == "ST306"
    assert rows(mart, "shop.names") == ["(1,Tea)", "(2,JAM)"]


def test_overload_that_does_not_fit_better_costs_nothing(mart: Bench):
    mart.run("owner", ACCENT)
    with mart.trickle() as trickle:
        trickle.create_stream_table(
            "shop.names", "SELECT id, public.accent(name) AS name FROM shop.products"
        )
        mart.run("attacker", "CREATE FUNCTION public.accent(int) RETURNS text" + BODY)
        mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

        report = trickle.refresh_stream_table("shop.names")

    assert report.action.value == "DIFFERENTIAL"


def test_overload_in_default_arguments_is_told(mart: Bench):
    mart.run(
        "owner",
        "CREATE FUNCTION public.pad(text, int DEFAULT 3) RETURNS text LANGUAGE sql IMMUTABLE"
        " AS 'SELECT lpad($1, $2)'",
    )
    create(mart, "shop.names", "SELECT id, public.pad(name) AS name FROM shop.products")

    mart.run("attacker", "CREATE FUNCTION public.pad(text) RETURNS text" + BODY)
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    # PostgreSQL calls two candidates ambiguous, or takes the better one; neither is answered.
    assert code_of(mart, refresh("shop.names")) in {"ST306", "ST302", "ST105", "ST107"}


def test_function_that_another_owns_now_is_not_called(mart: Bench):
    mart.run("owner", ACCENT)
    create(mart, "shop.names", "SELECT id, public.accent(name) AS name FROM shop.products")

    mart.run("admin", "ALTER FUNCTION public.accent(anyelement) OWNER TO {attacker}")
    mart.run("attacker", OTHER)
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    assert code_of(mart, refresh("shop.names")) == "ST306"


def test_function_that_was_dropped_and_made_by_another_is_not_called(mart: Bench):
    mart.run("owner", ACCENT)
    create(mart, "shop.names", "SELECT id, public.accent(name) AS name FROM shop.products")

    mart.run("owner", "DROP FUNCTION public.accent")
    mart.run("attacker", OTHER)
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    assert code_of(mart, refresh("shop.names")) == "ST306"


LONGEST = (
    "CREATE FUNCTION public.longer(text, text) RETURNS text LANGUAGE sql IMMUTABLE"
    " AS $$ SELECT CASE WHEN length($2) > length($1) THEN $2 ELSE $1 END $$",
    "CREATE FUNCTION public.shorten(text) RETURNS text LANGUAGE sql IMMUTABLE"
    " AS 'SELECT left($1, 9)'",
    "CREATE AGGREGATE public.longest(text) (sfunc = public.longer, stype = text, initcond = '',"
    " finalfunc = public.shorten, combinefunc = public.longer, msfunc = public.longer,"
    " minvfunc = public.longer, mstype = text, mfinalfunc = public.shorten, minitcond = '')",
)


def spying(signature: str) -> str:
    """Write a function of the attacker's in place of another."""
    return f"CREATE OR REPLACE FUNCTION public.{signature} RETURNS text" + BODY


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ("FUNCTION public.longer(text, text)", spying("longer(text, text)")),
        ("FUNCTION public.shorten(text)", spying("shorten(text)")),
        (
            "AGGREGATE public.longest(text)",
            "CREATE OR REPLACE AGGREGATE public.longest(text) (sfunc = public.spy, stype = text,"
            " initcond = '')",
        ),
    ],
)
def test_aggregate_of_which_another_owns_a_part_now_is_not_called(
    mart: Bench, changed: str, code: str
):
    mart.run("owner", *LONGEST)
    create(mart, "shop.names", "SELECT public.longest(name) AS name FROM shop.products")

    mart.run("admin", f"ALTER {changed} OWNER TO {{attacker}}")
    mart.run("attacker", spying("spy(text, text)"), code)
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    assert code_of(mart, refresh("shop.names")) == "ST306"
    assert rows(mart, "shop.names") == ["(JAM)"]


def test_aggregate_that_fits_better_is_not_found_where_casts_are_written_out(mart: Bench):
    mart.run("owner", *LONGEST)
    create(mart, "shop.names", "SELECT public.longest(name) AS name FROM shop.products")

    mart.run(
        "attacker",
        spying("spy(varchar, varchar)"),
        "CREATE AGGREGATE public.longest(varchar) (sfunc = public.spy, stype = text)",
    )
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil')")

    with mart.trickle() as trickle:
        trickle.refresh_stream_table("shop.names")
        assert trickle.verify_stream_table("shop.names").ok


THEIRS = (
    "CREATE SCHEMA theirs",
    "CREATE TABLE theirs.prices (id int PRIMARY KEY, price int)",
    "INSERT INTO theirs.prices VALUES (1, 10)",
    "GRANT USAGE ON SCHEMA theirs TO {owner}",
    "GRANT SELECT, TRIGGER ON theirs.prices TO {owner}",
)


@pytest.fixture
def theirs(mart: Bench) -> Bench:
    """Let the owner's stream table read a table of the attacker's."""
    mart.run("admin", "GRANT CREATE ON DATABASE {database} TO {attacker}")
    mart.run("attacker", *THEIRS)
    create(mart, "shop.prices", "SELECT id, price FROM theirs.prices")
    return mart


def test_table_that_became_a_view_is_not_read(theirs: Bench):
    theirs.run(
        "attacker",
        "DROP TABLE theirs.prices CASCADE",
        "CREATE TABLE theirs.more ()",
        "CREATE FUNCTION theirs.spy() RETURNS int" + BODY,
        "CREATE VIEW theirs.prices AS SELECT 1 AS id, theirs.spy() AS price FROM theirs.more",
        "GRANT SELECT, TRIGGER ON theirs.prices TO {owner}",
    )

    assert code_of(theirs, refresh("shop.prices")) == "ST306"


def test_table_that_was_made_again_by_its_owner_is_read(theirs: Bench):
    theirs.run("attacker", "DROP TABLE theirs.prices CASCADE", THEIRS[1], THEIRS[4])

    with theirs.trickle() as trickle:
        report = trickle.refresh_stream_table("shop.prices")

    assert report.action.value == "REINITIALIZE"


def test_table_that_changed_its_owner_is_confirmed_by_repair(mart: Bench):
    with mart.trickle() as trickle:
        trickle.create_stream_table("shop.names", "SELECT id, name FROM shop.products")
        mart.run("admin", "ALTER TABLE shop.products OWNER TO {attacker}")
        mart.run("admin", "GRANT SELECT, TRIGGER ON shop.products TO {owner}")
        mart.run("admin", "GRANT USAGE ON SCHEMA shop TO {attacker}")
        mart.run("attacker", "INSERT INTO shop.products VALUES (3, 'Oil')")
        with pytest.raises(TrickleError) as caught:
            trickle.refresh_stream_table("shop.names")
        assert caught.value.code == "ST306"

    assert code_of(mart, refresh("shop.names")) == "ST306"
    with mart.trickle() as trickle:
        mended = trickle.repair_stream_table("shop.names")
        assert any("shop.products" in one.what for one in mended)
        assert trickle.refresh_stream_table("shop.names").action.value == "REINITIALIZE"
        assert trickle.verify_stream_table("shop.names").ok


def test_repair_takes_the_meaning_that_the_query_has_now(mart: Bench):
    mart.run("owner", ACCENT)
    with mart.trickle() as running:
        running.create_stream_table(
            "shop.names", "SELECT id, public.accent(name) AS name FROM shop.products"
        )
        mart.run(
            "owner",
            "CREATE FUNCTION public.accent(varchar) RETURNS varchar LANGUAGE sql IMMUTABLE"
            " AS $$SELECT $1 || '!'$$",
        )
        assert code_of(mart, refresh("shop.names")) == "ST306"

        with mart.trickle() as trickle:
            trickle.repair_stream_table("shop.names")

        assert running.refresh_stream_table("shop.names").action.value == "REINITIALIZE"
        assert running.verify_stream_table("shop.names").ok
    assert rows(mart, "shop.names") == ["(1,Tea!)", "(2,JAM!)"]


def test_record_of_an_earlier_version_is_made_at_the_first_compilation(mart: Bench):
    mart.run("owner", ACCENT)
    create(mart, "shop.names", "SELECT id, public.accent(name) AS name FROM shop.products")
    mart.run("owner", "UPDATE pgtrickle.pgt_stream_tables SET bound = NULL")

    with mart.trickle() as trickle:
        trickle.refresh_stream_table("shop.names")
    mart.run("attacker", BETTER)

    assert code_of(mart, refresh("shop.names")) == "ST306"


def test_new_columns_of_a_star_do_not_change_the_query(mart: Bench):
    create(mart, "shop.names", "SELECT * FROM shop.products")

    mart.run("owner", "ALTER TABLE shop.products ADD COLUMN more int")
    mart.run("owner", "INSERT INTO shop.products VALUES (3, 'Oil', 1)")

    with mart.trickle() as trickle:
        trickle.refresh_stream_table("shop.names")
        trickle.repair_stream_table("shop.names")
        trickle.refresh_stream_table("shop.names")
    assert rows(mart, "shop.names") == ["(1,Tea)", "(2,JAM)", "(3,Oil)"]


RICH = "SELECT id, name FROM shop.products"
SWAPS = {
    "by its owner": ("owner", "owner"),
    "by an attacker, who may create there": ("owner", "attacker"),
}


@pytest.mark.parametrize(("renames", "creates"), SWAPS.values(), ids=SWAPS.keys())
def test_other_table_under_the_name_of_a_renamed_source_is_never_read(
    mart: Bench, renames: str, creates: str
):
    mart.run("admin", "GRANT ALL ON SCHEMA shop TO {attacker}")
    with mart.trickle() as running:
        running.create_stream_table("shop.names", RICH)
        mart.run(renames, "ALTER TABLE shop.products RENAME TO genuine")
        mart.run(
            creates,
            "CREATE TABLE shop.products (id int PRIMARY KEY, name varchar(20))",
            "INSERT INTO shop.products VALUES (7, 'poison')",
            "GRANT ALL ON shop.products TO PUBLIC",
        )
        mart.run("owner", "INSERT INTO shop.genuine VALUES (3, 'Oil')")

        with pytest.raises(TrickleError) as caught:
            running.refresh_stream_table("shop.names")
        assert caught.value.code == "ST306"
    assert code_of(mart, refresh("shop.names")) == "ST306"
    assert code_of(mart, lambda one: one.refresh_stream_table("shop.names", full=True)) == "ST306"
    assert rows(mart, "shop.names") == ["(1,Tea)", "(2,JAM)"]

    mart.run(creates, "DROP TABLE shop.products")
    with mart.trickle() as trickle:
        assert trickle.refresh_stream_table("shop.names").action.value == "DIFFERENTIAL"
        assert trickle.verify_stream_table("shop.names").ok
    assert rows(mart, "shop.names") == ["(1,Tea)", "(2,JAM)", "(3,Oil)"]


def test_renamed_source_that_changes_hands_is_not_followed(mart: Bench):
    create(mart, "shop.names", RICH)
    mart.run("owner", "ALTER TABLE shop.products RENAME TO genuine")
    mart.run("admin", "ALTER TABLE shop.genuine OWNER TO {attacker}")
    mart.run("admin", "GRANT SELECT, TRIGGER ON shop.genuine TO {owner}")

    assert code_of(mart, refresh("shop.names")) == "ST306"


def test_new_text_of_a_query_runs_no_function_on_its_writers_path(mart: Bench):
    """The text of the user is compared with the bound one, and not planned for that."""
    mart.run("admin", "ALTER ROLE {owner} SET search_path = public, shop")
    create(mart, "shop.names", "SELECT id, lower('X'::varchar) AS name FROM products")
    mart.run("attacker", "CREATE FUNCTION public.lower(varchar) RETURNS text" + BODY)
    mart.run("owner", "ALTER TABLE shop.products RENAME TO genuine")
    mart.run("owner", "INSERT INTO shop.genuine VALUES (3, 'Oil')")

    with mart.trickle() as trickle:
        assert trickle.refresh_stream_table("shop.names").action.value == "DIFFERENTIAL"
    assert rows(mart, "shop.names") == ["(1,x)", "(2,x)", "(3,x)"]
