"""Sources that change shape, and settings of the database that change what values mean."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import pgtrickle
from pgtrickle.errors import SparkFailedError, TrickleError
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab


@pytest.fixture
def lab(lab: Lab) -> Iterator[Lab]:
    """Leave it to the refresh to find out what was altered."""
    with lab.unwatched():
        yield lab


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, k int, v text, spare int)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b')",
    )
    lab.create("counts", "SELECT k, count(*) AS n, max(v) AS v FROM t GROUP BY k")
    return lab


def code_of(lab: Lab, name: str) -> str:
    with pytest.raises(TrickleError) as caught:
        lab.trickle.refresh_stream_table(name)
    assert caught.value.hint
    return caught.value.code


def test_column_that_is_not_read_may_come_and_go(shop: Lab):
    shop.run("ALTER TABLE t ADD COLUMN more int", "ALTER TABLE t DROP COLUMN spare")

    shop.window("INSERT INTO t (id, k, v, more) VALUES (3, 2, 'c', 1)")


def test_column_that_is_read_is_widened(shop: Lab):
    shop.run("ALTER TABLE t ALTER COLUMN id TYPE bigint")

    shop.window("INSERT INTO t VALUES (3000000000, 2, 'c')", action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (3000000001, 2, 'c')")


def test_group_column_changes_its_type(shop: Lab):
    shop.run("ALTER TABLE t ALTER COLUMN k TYPE bigint")

    assert code_of(shop, "counts") == "ST302"
    shop.run("ALTER TABLE t ALTER COLUMN k TYPE int")
    shop.window(action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")


def test_column_changes_its_type_without_changing_the_result(lab: Lab):
    lab.run("CREATE TABLE t (id int, k int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.create("sums", "SELECT id, sum(k)::numeric AS s FROM t GROUP BY id")

    lab.run("ALTER TABLE t ALTER COLUMN k TYPE bigint")
    lab.window("INSERT INTO t VALUES (1, 9)", action="REINITIALIZE")
    lab.window("INSERT INTO t VALUES (2, 9000000000)")


def test_column_that_is_read_is_renamed(shop: Lab):
    shop.run("ALTER TABLE t RENAME COLUMN v TO renamed", "INSERT INTO t VALUES (3, 2, 'c')")

    assert code_of(shop, "counts") == "ST302"
    shop.run("ALTER TABLE t RENAME COLUMN renamed TO v")
    shop.window("INSERT INTO t VALUES (4, 2, 'd')")


def test_column_that_is_read_is_dropped(shop: Lab):
    shop.run("ALTER TABLE t DROP COLUMN v", "INSERT INTO t VALUES (3, 2)", "DELETE FROM t")

    with pytest.raises(
        TrickleError, match=r'column ("v"|t\.v) does not exist .columns of public\.t'
    ):
        shop.trickle.refresh_stream_table("counts")
    shop.run("INSERT INTO t VALUES (4, 2)")
    assert code_of(shop, "counts") == "ST302"
    shop.run("ALTER TABLE t ADD COLUMN v text DEFAULT 'again'")
    shop.window(action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (5, 2)")
    shop.trickle.drop_stream_table("counts")
    assert shop.leftovers() == []
    shop.run("INSERT INTO t VALUES (6, 2)")


def test_column_that_another_stream_table_reads_is_dropped(shop: Lab):
    shop.create("keys", "SELECT id, k FROM t")
    shop.run("ALTER TABLE t DROP COLUMN v", "INSERT INTO t VALUES (3, 2)")

    shop.refresh("keys")
    shop.run("UPDATE t SET k = k + 1")
    shop.refresh("keys")
    assert code_of(shop, "counts") == "ST302"


def test_table_is_renamed(shop: Lab):
    shop.run("ALTER TABLE t RENAME TO renamed")

    shop.run("INSERT INTO renamed VALUES (3, 2, 'c')")
    code_or_action = shop.trickle.refresh_stream_table("counts").action.value
    assert code_or_action == "DIFFERENTIAL"
    assert shop.rows("TABLE counts") == shop.rows(
        "SELECT k, count(*), max(v) FROM renamed GROUP BY k"
    )


def test_source_is_dropped(shop: Lab):
    shop.run("DROP TABLE t CASCADE")

    assert code_of(shop, "counts") == "ST301"
    [failed] = shop.trickle.refresh_history("counts", limit=1)
    assert (failed.status.value, failed.error_code) == ("FAILED", "ST301")
    shop.trickle.drop_stream_table("counts")
    assert shop.leftovers() == []


def test_source_is_dropped_and_made_again(shop: Lab):
    shop.run("DROP TABLE t CASCADE")
    assert code_of(shop, "counts") == "ST301"
    shop.run("CREATE TABLE t (id int, k int, v text)", "INSERT INTO t VALUES (7, 7, 'x')")

    shop.window("INSERT INTO t VALUES (8, 7, 'y')", action="REINITIALIZE")
    [refresh] = shop.trickle.refresh_history("counts", limit=2)[1:]
    assert refresh.reason == "public.t was dropped"
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")
    shop.trickle.drop_stream_table("counts")
    assert shop.leftovers() == []


def test_source_is_made_again_with_other_columns(shop: Lab):
    shop.run("DROP TABLE t CASCADE", "CREATE TABLE t (id int, k text, v text)")
    assert code_of(shop, "counts") == "ST302"


def test_view_is_replaced(lab: Lab):
    lab.run("CREATE TABLE t (id int, k int)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    lab.run("CREATE VIEW seen AS SELECT id FROM t WHERE k = 1")
    lab.create("made", "SELECT id FROM seen")

    lab.run("CREATE OR REPLACE VIEW seen AS SELECT id FROM t WHERE k = 2")
    lab.window("INSERT INTO t VALUES (3, 2), (4, 1)", action="REINITIALIZE")
    lab.window("INSERT INTO t VALUES (5, 2), (6, 1)")


def test_stream_table_was_written_by_hand(shop: Lab):
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        shop.run("DELETE FROM counts")
    shop.run("ALTER TABLE counts DISABLE TRIGGER pgtrickle_guard", "DELETE FROM counts")

    shop.run("INSERT INTO t VALUES (3, 1, 'z')")
    assert code_of(shop, "counts") == "ST406"
    shop.trickle.refresh_stream_table("counts", full=True)
    shop.check("counts")
    shop.window("INSERT INTO t VALUES (4, 1, 'zz')")


def test_stream_table_was_dropped_by_hand(shop: Lab):
    shop.run("DROP TABLE counts", "INSERT INTO t VALUES (3, 1, 'z')")

    assert code_of(shop, "counts") == "ST201"
    shop.trickle.drop_stream_table("counts")
    assert shop.leftovers() == []


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/New_York"])
def test_time_zone_of_the_database(database: str, duckdb_engine: DuckDbEngine, zone: str):
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            f"ALTER DATABASE {connection.info.dbname} SET timezone = '{zone}'".encode()
        )
    with (
        pgtrickle.connect(database, engine=Borrowed(duckdb_engine)) as trickle,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        lab = Lab(trickle, connection)
        lab.run("CREATE TABLE t (id int, at timestamptz)")
        lab.run("INSERT INTO t VALUES (1, '2026-01-01 20:00+00'), (2, '2026-07-01 02:00+00')")
        lab.create("days", "SELECT id, at::date AS day, to_char(at, 'HH24:MI') AS clock FROM t")
        lab.create("by_day", "SELECT date_trunc('day', at) AS day, count(*) AS n FROM t GROUP BY 1")

        lab.window("INSERT INTO t VALUES (3, '2026-01-01 14:59+00'), (4, '2026-01-01 15:01+00')")


def test_values_are_rewritten_by_alter_table(shop: Lab):
    shop.run("ALTER TABLE t ALTER COLUMN k TYPE int USING k + 1")

    shop.window("INSERT INTO t VALUES (3, 2, 'c')", action="REINITIALIZE")


def test_failure_after_the_preparation_is_made_good(shop: Lab):
    """State is empty by then: to go on from it would lose every group."""
    shop.run("ALTER TABLE t ALTER COLUMN id TYPE bigint", "INSERT INTO t VALUES (3, 1, 'c')")

    def fail() -> None:
        raise SparkFailedError("no engine", hint="Start one.")

    shop.before_next_stage(fail)
    assert code_of(shop, "counts") == "ST403"

    shop.window("INSERT INTO t VALUES (4, 1, 'd')", action="REINITIALIZE")
    shop.window("INSERT INTO t VALUES (5, 1, 'e')")


def reason_of(lab: Lab, name: str) -> str:
    """Refresh and check; return why it started anew."""
    report = lab.trickle.refresh_stream_table(name)
    assert report.action.value == "REINITIALIZE", report.reason
    lab.check(name)
    return report.reason


TYPES = (
    "CREATE TYPE mood AS ENUM ('sad', 'glad')",
    "CREATE DOMAIN small AS int CHECK (value < 10)",
    "CREATE TYPE pair AS (a int, b text)",
    "CREATE TABLE t (id int, m mood, s small, p pair, ms mood[])",
    "INSERT INTO t VALUES (1, 'sad', 1, '(1,x)', '{sad}')",
)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TYPE mood ADD VALUE 'angry' BEFORE 'sad'",
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
        "ALTER DOMAIN small ADD CHECK (value <> 7)",
        "ALTER DOMAIN small DROP CONSTRAINT small_check",
        "ALTER TYPE pair ADD ATTRIBUTE c int",
    ],
)
def test_p45_definition_of_a_type_changes(lab: Lab, statement: str):
    lab.run(*TYPES)
    lab.create("made", "SELECT id, m, s, p, ms FROM t")
    lab.create("ids", "SELECT id FROM t")

    lab.run(statement)
    assert reason_of(lab, "made") == "the definition of a type in public.t changed"
    lab.refresh("ids", "NO_DATA")
    lab.window("INSERT INTO t VALUES (2, 'glad', 2, NULL, '{glad}')")


def test_p45_function_body_is_replaced(lab: Lab):
    body = "CREATE OR REPLACE FUNCTION grade(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT {}'"
    lab.run(body.format("$1 + 1"), "CREATE TABLE t (id int)", "INSERT INTO t VALUES (1), (2)")
    lab.create("made", "SELECT id, grade(id) AS g FROM t WHERE grade(id) > 0")
    lab.create("ids", "SELECT id FROM t")

    lab.run(body.format("$1 + 2"))
    assert reason_of(lab, "made") == "the function public.grade(integer) was replaced"
    lab.refresh("ids", "NO_DATA")
    lab.window("INSERT INTO t VALUES (3)")
    lab.run(body.format("$1 + 2") + " COST 7")
    lab.window("INSERT INTO t VALUES (4)")
    lab.run("DROP FUNCTION grade")
    with pytest.raises(TrickleError, match=r"the function public\.grade\(integer\) was dropped"):
        lab.trickle.refresh_stream_table("made")


def test_p45_functions_of_an_operator_and_an_aggregate_are_replaced(lab: Lab):
    lab.run(
        "CREATE FUNCTION near(int, int) RETURNS boolean IMMUTABLE LANGUAGE sql"
        " AS 'SELECT abs($1 - $2) < 2'",
        "CREATE OPERATOR ~~~ (LEFTARG = int, RIGHTARG = int, FUNCTION = near)",
        "CREATE FUNCTION add(int, int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + $2'",
        "CREATE AGGREGATE total(int) (SFUNC = add, STYPE = int, INITCOND = '0')",
        "CREATE TABLE t (id int)",
        "INSERT INTO t VALUES (1), (2), (5)",
    )
    lab.create("close", "SELECT id FROM t WHERE id ~~~ 2", mode="AUTO")
    lab.create("totals", "SELECT total(id) AS n FROM t", mode="AUTO")

    lab.run(
        "CREATE OR REPLACE FUNCTION near(int, int) RETURNS boolean IMMUTABLE LANGUAGE sql"
        " AS 'SELECT abs($1 - $2) < 9'",
        "CREATE OR REPLACE FUNCTION add(int, int) RETURNS int IMMUTABLE LANGUAGE sql"
        " AS 'SELECT $1 + 2 * $2'",
    )
    assert reason_of(lab, "close") == "the function public.near(integer,integer) was replaced"
    assert reason_of(lab, "totals") == "the function public.add(integer,integer) was replaced"


PARTS = ("sfunc", "finalfunc", "combinefunc", "msfunc", "minvfunc", "mfinalfunc")


@pytest.mark.parametrize("part", PARTS)
def test_p45_each_function_of_an_aggregate_is_replaced(lab: Lab, part: str):
    body = "CREATE OR REPLACE FUNCTION part_{}({}) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT {}"
    arguments = {one: "integer" if "final" in one else "integer,integer" for one in PARTS}
    bodies = {one: "$1" if "final" in one else "$1 + $2" for one in PARTS} | {"minvfunc": "$1 - $2"}
    lab.run(
        *(body.format(one, arguments[one], bodies[one]) + "'" for one in PARTS),
        f"CREATE AGGREGATE total(int) ({', '.join(f'{one} = part_{one}' for one in PARTS)},"
        " stype = int, initcond = '0', mstype = int, minitcond = '0')",
        "CREATE TABLE t (id int)",
        "INSERT INTO t VALUES (1), (2), (5)",
    )
    lab.create("totals", "SELECT id % 2 AS odd, total(id) AS n FROM t GROUP BY id % 2")
    lab.create("ids", "SELECT id FROM t")

    lab.run(body.format(part, arguments[part], bodies[part]) + " + 0 * $1'")
    name = f"public.part_{part}({arguments[part]})"
    assert reason_of(lab, "totals") == f"the function {name} was replaced"
    lab.refresh("ids", "NO_DATA")
    lab.window("INSERT INTO t VALUES (3)")


def test_p45_aggregate_is_replaced_altered_and_dropped(lab: Lab):
    total = "CREATE OR REPLACE AGGREGATE total(int) (sfunc = {}, stype = int, initcond = '{}')"
    lab.run(
        total.format("int4pl", 0), "CREATE TABLE t (id int)", "INSERT INTO t VALUES (1), (2), (5)"
    )
    lab.create("totals", "SELECT total(id) AS n FROM t")

    for transition, initial in (("int4mul", 0), ("int4mul", 1)):
        lab.run(total.format(transition, initial))
        assert reason_of(lab, "totals") == "the function public.total(integer) was replaced"
        lab.window("INSERT INTO t VALUES (3)")
    lab.run(
        "CREATE FUNCTION loose(int, int) RETURNS int VOLATILE LANGUAGE sql AS 'SELECT 1'",
        total.format("loose", 1),
    )
    assert code_of(lab, "totals") == "ST103"
    lab.run(total.format("int4pl", 7))
    lab.window("INSERT INTO t VALUES (3)", action="REINITIALIZE")
    lab.run("DROP AGGREGATE total(int)")
    with pytest.raises(TrickleError, match=r"the function public\.total\(integer\) was dropped"):
        lab.trickle.refresh_stream_table("totals")


def test_p45_row_security_is_switched_and_policies_change(lab: Lab):
    lab.run("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1), (2)")
    lab.create("made", "SELECT id FROM t")

    for statement in (
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON t USING (id > 1)",
        "ALTER POLICY few ON t USING (id > 2)",
        "ALTER TABLE t FORCE ROW LEVEL SECURITY",
        "DROP POLICY few ON t",
        "ALTER TABLE t DISABLE ROW LEVEL SECURITY",
    ):
        lab.run(statement, "INSERT INTO t VALUES (3)")
        assert reason_of(lab, "made") == "row security of public.t changed", statement
    lab.window("INSERT INTO t VALUES (4)")


def test_p45_view_is_dropped(lab: Lab):
    lab.run("CREATE TABLE t (id int)", "CREATE VIEW seen AS SELECT id FROM t")
    lab.create("made", "SELECT id FROM seen")

    lab.run("DROP VIEW seen", "INSERT INTO t VALUES (1)")
    assert code_of(lab, "made") == "ST301"
    lab.run("CREATE VIEW seen AS SELECT id + 1 AS id FROM t")
    lab.window(action="REINITIALIZE")
    lab.window("INSERT INTO t VALUES (2)")


@pytest.mark.parametrize(
    "alteration",
    ["DROP COLUMN v", "RENAME COLUMN v TO w", "ALTER COLUMN v TYPE int USING 1"],
)
def test_messages_name_objects_and_no_oids(shop: Lab, alteration: str):
    relid = shop.value("SELECT 't'::regclass::oid")
    shop.run(f"ALTER TABLE t {alteration}")
    shop.trickle._runtime.remembered.clear()

    with pytest.raises(TrickleError) as caught:
        shop.trickle.refresh_stream_table("counts")

    told = f"{caught.value} {caught.value.detail} {caught.value.hint}"
    assert str(relid) not in told
    assert "counts" in told


def test_unread_columns_come_and_go_without_a_trace(shop: Lab):
    """Not even the slower way of capture lasts: the refresh renews the functions."""
    shop.window("INSERT INTO t VALUES (3, 2, 'c')")
    for statement in ("DROP COLUMN spare", "ADD COLUMN more int", "RENAME COLUMN more TO less"):
        shop.run(f"ALTER TABLE t {statement}")
        shop.window(action="NO_DATA")
        [(layout, now)] = shop.rows(
            "SELECT layout, pgtrickle.describe_layout(source_relid)"
            " FROM pgtrickle.pgt_change_tracking"
        )
        assert layout == now
    shop.window("INSERT INTO t VALUES (4, 2, 'd')", "UPDATE t SET k = 5")


def test_another_process_started_the_stream_table_anew(shop: Lab, duckdb_engine: DuckDbEngine):
    with pgtrickle.connect(shop.trickle.dsn, engine=Borrowed(duckdb_engine)) as other:
        other.refresh_stream_table("counts")
        shop.run("ALTER TABLE t DROP COLUMN spare, DROP COLUMN v, ADD COLUMN v text DEFAULT 'x'")
        shop.window("INSERT INTO t VALUES (3, 2)", action="REINITIALIZE")

        shop.run("INSERT INTO t VALUES (4, 2, 'y'), (5, 1, 'z')")
        assert other.refresh_stream_table("counts").action.value == "DIFFERENTIAL"
        shop.check("counts")


@pytest.fixture
def old_buffer(lab: Lab) -> Lab:
    """Return a lab with a source whose buffer has the precision of its columns, as once."""
    lab.run("CREATE TABLE priced (id int PRIMARY KEY, price numeric(10, 2))")
    lab.create("total", "SELECT sum(price) AS price FROM priced")
    relid = lab.value("SELECT 'priced'::regclass::oid::int")
    lab.run(
        f"ALTER TABLE pgtrickle_changes.changes_{relid} ALTER COLUMN price TYPE numeric(10, 2)",
        "UPDATE pgtrickle.pgt_change_tracking SET layout = NULL",
    )
    return lab


_LIMITED = """
    SELECT count(*) FROM pg_attribute
     WHERE attrelid = format('pgtrickle_changes.changes_%s', 'priced'::regclass::oid)::regclass
       AND atttypmod <> -1
"""


def test_buffer_of_an_earlier_version_is_altered_before_it_is_read(old_buffer: Lab):
    assert old_buffer.value(_LIMITED) == 1

    old_buffer.window("INSERT INTO priced VALUES (1, 2.5)")

    assert old_buffer.value(_LIMITED) == 0


def test_nobody_waits_for_the_reader_of_a_buffer(old_buffer: Lab):
    relid = old_buffer.value("SELECT 'priced'::regclass::oid::int")
    with psycopg.connect(old_buffer.connection.info.dsn) as reader:
        reader.execute(f"SELECT FROM pgtrickle_changes.changes_{relid}")

        old_buffer.window("INSERT INTO priced VALUES (1, 2.5)")

    assert old_buffer.value(_LIMITED) == 1
    old_buffer.window("INSERT INTO priced VALUES (2, 2.5)")
    assert old_buffer.value(_LIMITED) == 0
