"""Who may ask for what: readers, operators, owners; and nobody gains a right by asking."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.service.requests.server import RequestServer
from tests.catalog.databases import SHADOWS, ordinary_role
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"
REFRESH = "CALL pgtrickle.refresh_stream_table('counts')"
CREATE = f"CALL pgtrickle.create_stream_table('other', '{COUNTS}')"


@pytest.fixture(autouse=True)
def forget_requests() -> None:
    """Use a database of one's own: roles are granted rights in it."""


@pytest.fixture
def database(empty_database: str) -> str:
    """Let an ordinary role make the catalog."""
    return empty_database


@pytest.fixture
def owner(database: str, duckdb_engine: DuckDbEngine) -> Iterator[Lab]:
    """Serve as an ordinary role, in a database that grants everyone everything on new tables."""
    with ordinary_role(database) as role:
        with psycopg.connect(database, autocommit=True) as admin:
            admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO {role}".encode())
            admin.execute(f"GRANT CREATE ON SCHEMA public TO {role}".encode())
        dsn = make_conninfo(database, user=role)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC")
            with pgtrickle.connect(dsn, engine=Borrowed(duckdb_engine), init=True) as trickle:
                lab = Lab(trickle, connection)
                lab.run(*T)
                lab.create("counts", COUNTS)
                with _serving(trickle):
                    yield lab


@contextmanager
def _serving(trickle: pgtrickle.Trickle) -> Iterator[None]:
    done = threading.Event()
    with RequestServer(trickle._runtime) as server:

        def serve() -> None:
            while not done.wait(0.005):
                server.serve()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@pytest.fixture
def other(owner: Lab, database: str) -> Iterator[psycopg.Connection]:
    with (
        ordinary_role(database) as role,
        psycopg.connect(make_conninfo(database, user=role), autocommit=True) as connection,
    ):
        yield connection


def grant(owner: Lab, other: psycopg.Connection, level: str) -> None:
    owner.run(f"SELECT pgtrickle.grant_access('{other.info.user}', '{level}')")


def refused(connection: psycopg.Connection, statement: str) -> str:
    """Return the SQLSTATE with which a statement fails."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    return str(caught.value.sqlstate)


def test_without_access_nothing_is_reached(owner: Lab, other: psycopg.Connection):
    for statement in (REFRESH, CREATE, "SELECT * FROM pgtrickle.pgt_status()"):
        assert refused(other, statement) == "42501"


def test_reader_looks_and_does_nothing(owner: Lab, other: psycopg.Connection):
    grant(owner, other, "reader")

    functions = (
        "pgt_status()",
        "get_refresh_history('counts')",
        "refresh_timeline()",
        "get_staleness('counts')",
        "explain_refresh_mode('counts')",
        "list_sources('counts')",
        "change_buffer_sizes()",
        "dependency_tree()",
        "request_queue()",
        "refresh_efficiency()",
        "sla_summary()",
        "health_check()",
        "quick_health",
        "stream_tables_info",
        "version()",
        "export_definition('counts')",
        "stream_table_spec('counts')",
        "check_cdc_health()",
        "fuse_status()",
        "is_drained()",
        "explain_dag()",
    )
    for function in functions:
        assert other.execute(f"SELECT * FROM pgtrickle.{function}".encode()).fetchall(), function
    for statement in (
        REFRESH,
        "SELECT pgtrickle.subscribe('counts', 'news')",
        "SELECT pgtrickle.submit_request('refresh_stream_table', '{}')",
        "UPDATE pgtrickle.pgt_stream_tables SET status = 'SUSPENDED'",
        "SELECT * FROM pgtrickle.pgt_leases",
        "SELECT * FROM pgtrickle.pgt_requests",
        "INSERT INTO pgtrickle.pgt_grants VALUES ('reader', 'ALL', 'TABLE t')",
        "UPDATE pgtrickle.pgt_request_servers SET beat_at = now()",
        "SELECT pgtrickle.gate_source('t')",
        "CALL pgtrickle.pause_scheduler('{counts}')",
        "CALL pgtrickle.drain(0)",
        "SELECT pgtrickle.undrain()",
    ):
        assert refused(other, statement) == "42501", statement


def test_operator_must_own_what_he_asks_for(owner: Lab, other: psycopg.Connection):
    grant(owner, other, "operator")

    with pytest.raises(psycopg.Error) as caught:
        other.execute(REFRESH.encode())
    assert caught.value.sqlstate == "ST206"
    assert str(caught.value).startswith('must be owner of stream table "public.counts"')
    for verb in ("drop", "alter", "resume", "repair", "verify", "explain"):
        assert refused(other, f"CALL pgtrickle.{verb}_stream_table('counts')") == "ST206"
    for statement in (
        "CALL pgtrickle.bulk_drop_stream_tables('{counts}')",
        "CALL pgtrickle.bulk_alter_stream_tables('{counts}', '{}')",
        "CALL pgtrickle.pause_scheduler('{counts}')",
        "CALL pgtrickle.resume_scheduler('{counts}')",
        "CALL pgtrickle.create_refresh_group('g', '{counts, counts}')",
        "CALL pgtrickle.reset_fuse('counts')",
        "CALL pgtrickle.explain_delta('counts')",
        "CALL pgtrickle.diagnose_errors('counts')",
        "CALL pgtrickle.show_as_of('counts', '1')",
    ):
        assert refused(other, statement) == "ST206"
    other.execute("SELECT pgtrickle.subscribe('counts', 'news')")


def test_operator_gates_his_own_sources_alone(owner: Lab, other: psycopg.Connection, database: str):
    """By the functions, and by hand: row security stands behind them."""
    grant(owner, other, "operator")
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"CREATE TABLE a (); ALTER TABLE a OWNER TO {other.info.user}".encode())
        admin.execute(f"CREATE TABLE b (); ALTER TABLE b OWNER TO {other.info.user}".encode())
    number = owner.value("SELECT 't'::regclass::oid")
    owner.run("SELECT pgtrickle.gate_source('t')", "SELECT pgtrickle.gate_source('a')")

    for statement in (
        "SELECT pgtrickle.gate_source('a')",
        "SELECT pgtrickle.ungate_source('a')",
        "SELECT pgtrickle.advance_watermark('a', '2026-01-01')",
        "SELECT pgtrickle.create_watermark_group('mine', '{a, b}')",
        "SELECT pgtrickle.drop_watermark_group('mine')",
    ):
        other.execute(statement.encode())
    for statement in (
        "SELECT pgtrickle.gate_source('t')",
        "SELECT pgtrickle.ungate_source('t')",
        "SELECT pgtrickle.advance_watermark('t', '2026-01-01')",
        "SELECT pgtrickle.create_watermark_group('mixed', '{a, t}')",
    ):
        assert refused(other, statement) == "ST206", statement
    for statement in (
        f"INSERT INTO pgtrickle.pgt_watermarks (source_relid, watermark) VALUES ({number}, now())",
        "INSERT INTO pgtrickle.pgt_watermark_groups (group_name, source_relids)"
        f" VALUES ('mixed', ARRAY['a'::regclass::oid, {number}])",
        "CALL pgtrickle.drain(0)",
    ):
        assert refused(other, statement) == "42501", statement
    ungated = "UPDATE pgtrickle.pgt_source_gates SET gated = false, gated_by = current_user"
    assert other.execute(ungated.encode()).rowcount == 1  # that of a
    assert owner.rows("SELECT source_table, gated FROM pgtrickle.bootstrap_gate_status()") == [
        ("public.a", False),
        ("public.t", True),
    ]


def test_operator_has_no_query_evaluated_with_the_owners_rights(
    owner: Lab, other: psycopg.Connection
):
    grant(owner, other, "operator")
    for statement in (
        CREATE,
        CREATE.replace("create_stream_table", "create_stream_table_if_not_exists"),
        CREATE.replace("create_stream_table", "create_or_replace_stream_table"),
        f"CALL pgtrickle.validate_query('{COUNTS}')",
        """CALL pgtrickle.bulk_create('[{"name": "x", "query": "SELECT 1 AS one"}]')""",
    ):
        assert refused(other, statement) == "ST303", statement


def test_nobody_asks_in_the_name_of_another(owner: Lab, other: psycopg.Connection):
    grant(owner, other, "operator")
    name = owner.connection.info.user
    for statement in (
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments, caller) VALUES"
        f""" ('drop_stream_table', '{{"name": "counts"}}', '{name}')""",
        f"UPDATE pgtrickle.pgt_requests SET caller = '{name}'",
        "UPDATE pgtrickle.pgt_requests SET status = 'QUEUED'",
    ):
        assert refused(other, statement) == "42501"
    assert refused(other, f"SET ROLE {name}") == "42501"


def test_requests_of_others_are_neither_seen_nor_cancelled(owner: Lab, other: psycopg.Connection):
    grant(owner, other, "operator")
    owner.run(REFRESH)
    request = owner.value("SELECT max(request_id) FROM pgtrickle.pgt_requests")

    assert other.execute("SELECT * FROM pgtrickle.requests").fetchall() == []
    cancelled = other.execute(f"SELECT pgtrickle.cancel_request({request})".encode()).fetchall()
    assert cancelled == [(False,)]


def test_function_with_its_owners_rights_asks_as_its_owner(owner: Lab, other: psycopg.Connection):
    """So an owner can hand out one thing; and session_user would have said something else."""
    grant(owner, other, "operator")
    owner.run(
        "CREATE FUNCTION public.refresh_counts() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS"
        """ $$ SELECT pgtrickle.submit_request('refresh_stream_table', '{"name": "counts"}') $$"""
    )
    [(request,)] = other.execute("SELECT public.refresh_counts()").fetchall()

    ask = f"SELECT caller FROM pgtrickle.requests WHERE request_id = {request}"
    assert owner.value(ask) == owner.connection.info.user


def test_member_of_the_owner_may_do_everything(
    owner: Lab, other: psycopg.Connection, database: str
):
    grant(owner, other, "operator")
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"GRANT {owner.connection.info.user} TO {other.info.user}".encode())

    other.execute(CREATE.encode())
    other.execute(REFRESH.encode())
    other.execute("CALL pgtrickle.drop_stream_table('other')")
    assert owner.rows("SELECT name FROM pgtrickle.pgt_status()") == [("public.counts",)]


def test_superuser_may_do_everything(owner: Lab, database: str):
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(REFRESH.encode())
        admin.execute(CREATE.encode())


def test_access_that_is_taken_back(owner: Lab, other: psycopg.Connection):
    grant(owner, other, "operator")
    owner.run(f"SELECT pgtrickle.revoke_access('{other.info.user}')")

    assert refused(other, "SELECT * FROM pgtrickle.pgt_status()") == "42501"
    assert refused(other, REFRESH) == "42501"


def test_level_that_does_not_exist(owner: Lab, other: psycopg.Connection):
    assert (
        refused(owner.connection, f"SELECT pgtrickle.grant_access('{other.info.user}', 'king')")
        == "ST501"
    )


def test_shadowed_names_do_not_reach_our_functions(
    owner: Lab, other: psycopg.Connection, database: str
):
    """Each function that asks, follows or tells, called with a hostile search path."""
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(SHADOWS)
        admin.execute(
            """
            CREATE FUNCTION hostile.pg_sleep(double precision) RETURNS void LANGUAGE sql
                AS $$ SELECT hostile.stolen() $$;
            CREATE FUNCTION hostile.jsonb_build_object(VARIADIC "any") RETURNS jsonb
                LANGUAGE internal AS 'jsonb_build_object_noargs';
            CREATE FUNCTION hostile.current_schemas(boolean) RETURNS name[] LANGUAGE sql
                AS $$ SELECT hostile.stolen()::name[] $$;
            CREATE FUNCTION hostile.same(pg_catalog.text, name) RETURNS boolean LANGUAGE sql
                AS $$ SELECT true $$;
            CREATE OPERATOR hostile.= (LEFTARG = pg_catalog.text, RIGHTARG = name,
                                       FUNCTION = hostile.same);
            """
        )
        admin.execute(f"GRANT {owner.connection.info.user} TO {other.info.user}".encode())
    grant(owner, other, "operator")
    other.execute("SET search_path = hostile, pg_catalog, public")

    other.execute(REFRESH.encode())
    other.execute(CREATE.replace("'other'", "'public.other'").encode())
    for function in ("pgt_status()", "health_check()", "sla_summary()", "dependency_tree()"):
        assert other.execute(f"SELECT * FROM pgtrickle.{function}".encode()).fetchall()
    assert other.execute("SELECT pgtrickle.get_staleness('counts')").fetchall()


def test_every_function_has_a_fixed_path_or_commits(owner: Lab):
    """What runs with its owner's rights must not look where its caller says."""
    loose = owner.rows(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'pgtrickle'::regnamespace"
        " AND proconfig IS NULL AND prokind = 'f'"
    )
    definers = owner.rows(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'pgtrickle'::regnamespace AND prosecdef"
        " AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}'))"
    )

    assert loose == [("submit_request",)]  # it takes the caller's path down
    assert definers == []


def test_nothing_is_executable_by_everyone(owner: Lab):
    found = owner.rows(
        "SELECT p.oid::regprocedure::text FROM pg_proc AS p,"
        " LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a"
        " WHERE p.pronamespace = 'pgtrickle'::regnamespace AND a.grantee = 0"
    )

    assert found == []


HOSTILE = (
    "Robert'); DROP TABLE t; --",
    'a"b',
    "a.b",
    "%s %(name)s {}",
    "$$; SELECT 1; $$",
    "ünï çödé ☃",
    "x" * 63,
    "\\'; --",
    "select",
    " lead and trail ",
)


def _random_names(number: int) -> list[str]:
    """Return names put together from what means something to some language on the way."""
    chance = random.Random(20260101)
    pieces = [*"'\"\\;.,()[]?# \n\ta", "--", "/*", "*/", "$$", "$1", "%s", "%I", "%%", "{0}", "::"]
    pieces += ["''", '""', "${ENV:HOME}", "Ä", "☃", "select", "null", "\u202e", "\u00a0"]
    return ["".join(chance.choices(pieces, k=chance.randint(1, 8)))[:20] for _ in range(number)]


@pytest.mark.parametrize("name", [*HOSTILE, *_random_names(15)])
def test_hostile_names_are_names(owner: Lab, name: str):
    """As schema, table, column and channel: each is quoted wherever it goes."""
    quoted = '"' + name.replace('"', '""') + '"'
    full = f"{quoted}.{quoted}"
    run = owner.connection.execute
    run(f"CREATE SCHEMA {quoted}".encode())
    run(f"CREATE TABLE {quoted}.source ({quoted} int PRIMARY KEY)".encode())
    query = f"SELECT {quoted}, count(*) AS n FROM {quoted}.source GROUP BY {quoted}"

    run("CALL pgtrickle.create_stream_table(%s, %s, cdc_mode => 'trigger')", [full, query])
    channel = "".join(one for one in name[:40] if one.isprintable()) or "channel"
    run("SELECT pgtrickle.subscribe(%s, %s)", [full, channel])
    run(f"INSERT INTO {quoted}.source VALUES (1)".encode())
    run("CALL pgtrickle.refresh_stream_table(%s)", [full])
    found = run(f"TABLE {full}".encode()).fetchall()
    script = run("SELECT pgtrickle.export_definition(%s)", [full]).fetchall()[0][0]
    sources = run("SELECT source_table FROM pgtrickle.list_sources(%s)", [full]).fetchall()
    buffers = run("SELECT source_table FROM pgtrickle.change_buffer_sizes()").fetchall()
    run("CALL pgtrickle.repair_stream_table(%s)", [full])
    run("SELECT pgtrickle.gate_source(%s)", [f"{quoted}.source"])
    run("CALL pgtrickle.pause_scheduler(%s)", [[full]])
    run("CALL pgtrickle.create_refresh_group(%s, %s)", [name, [full, "counts"]])
    run("SELECT pgtrickle.create_watermark_group(%s, %s)", [name, [f"{quoted}.source", "t"]])
    graph = run("SELECT pgtrickle.explain_dag('dot')").fetchall()[0][0]
    groups = run("SELECT group_name FROM pgtrickle.refresh_groups()").fetchall()
    run("SELECT pgtrickle.drop_watermark_group(%s)", [name])
    run("CALL pgtrickle.drop_refresh_group(%s)", [name])
    run("CALL pgtrickle.rename_stream_table(%s, 'public.plain')", [full])
    run("CALL pgtrickle.rename_stream_table('plain', %s)", [full])
    run("CALL pgtrickle.drop_stream_table(%s)", [full])

    assert found == [(1, 1)]
    assert script.count("CALL") == 2
    assert graph.count(" -> n") == 2
    assert groups == [(name,)]
    assert sources[0] in buffers
    assert owner.value("SELECT count(*) FROM t") == 2


def test_row_security_of_a_stream_table_is_for_its_readers(owner: Lab, other: psycopg.Connection):
    """Policies decide what others see; the refresh is the owner's, and sees everything."""
    owner.run(
        "INSERT INTO t VALUES (3, 3)",
        "ALTER TABLE counts ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON counts USING (k = 1)",
        f"GRANT SELECT ON counts TO {other.info.user}",
        REFRESH,
    )

    owner.check("counts")
    assert other.execute("TABLE counts").fetchall() == [(1, 2)]


@pytest.mark.parametrize("call", ["pause_cdc('{t}')", "resume_cdc()", "rebuild_cdc_triggers()"])
def test_capture_is_left_to_who_may_act_as_the_daemon(
    owner: Lab, other: psycopg.Connection, call: str
):
    grant(owner, other, "operator")

    assert refused(other, f"CALL pgtrickle.{call}") == "ST303"
    assert owner.value("SELECT count(*) FROM pgtrickle.check_cdc_health() WHERE alert > ''") == 0
