"""Whose catalog is it: nobody runs what a stranger put into the schemas of pgtrickle."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

from pgtrickle.catalog import migrate
from pgtrickle.catalog.access.trust import check_trust
from pgtrickle.errors import TrickleError
from tests.security.bench import REVENUE, Bench
from tests.security.traps import code_of_connecting, nothing_ran, set_traps

# What the owner of a catalog can do to it; each runs trap functions when settings are read or
# written, as every connection does.
TRAPS = {
    "trigger": "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON pgtrickle.pgt_settings"
    " FOR EACH ROW EXECUTE FUNCTION trap.on_row()",
    "view": "ALTER TABLE pgtrickle.pgt_settings RENAME TO genuine;"
    " CREATE VIEW pgtrickle.pgt_settings AS"
    " SELECT trap.text(name) AS name, value, type, default_value, unit, low, high, choices, doc,"
    " updated_at, updated_by FROM pgtrickle.genuine",
    "rule": "CREATE RULE a AS ON INSERT TO pgtrickle.pgt_settings"
    " DO ALSO SELECT trap.fits(NEW.name)",
    "policy": "ALTER TABLE pgtrickle.pgt_settings ENABLE ROW LEVEL SECURITY,"
    " FORCE ROW LEVEL SECURITY;"
    " CREATE POLICY a ON pgtrickle.pgt_settings USING (trap.fits(name))",
    "default": "ALTER TABLE pgtrickle.pgt_settings ADD COLUMN a text DEFAULT trap.text('a')",
    "check": "ALTER TABLE pgtrickle.pgt_settings ADD CHECK (trap.fits(name))",
    "generated": "ALTER TABLE pgtrickle.pgt_settings"
    " ADD COLUMN a text GENERATED ALWAYS AS (trap.text(name)) STORED",
    "index": "CREATE INDEX ON pgtrickle.pgt_settings ((trap.text(name)))",
    "domain": "ALTER TABLE pgtrickle.pgt_settings ALTER COLUMN unit TYPE trap.word",
    "operator": "ALTER TABLE pgtrickle.pgt_settings ADD CHECK (name OPERATOR(trap.===) unit)",
    "version": "ALTER TABLE pgtrickle.pgt_schema_version RENAME TO genuine;"
    " CREATE VIEW pgtrickle.pgt_schema_version AS SELECT version, applied_at, description,"
    " trap.text(sha256) AS sha256 FROM pgtrickle.genuine",
}


@pytest.fixture
def bench(empty_bench: Bench) -> Bench:
    """Let the test say who makes the catalog, and what is there before."""
    return empty_bench


@pytest.fixture
def trapped(bench: Bench) -> Bench:
    """Let the attacker make the catalog first."""
    set_traps(bench)
    with bench.trickle("attacker"):
        return bench


@pytest.fixture
def shared(bench: Bench) -> Bench:
    """Let the owner have a catalog, in which the attacker finds a foothold."""
    set_traps(bench)
    with bench.trickle() as trickle:
        trickle.create_stream_table("shop.revenue", REVENUE)
    return bench


def make_member(bench: Bench, who: str, of: str) -> None:
    bench.run("admin", f"GRANT {{{of}}} TO {{{who}}}")


@pytest.mark.parametrize("trap", TRAPS)
def test_nobody_runs_anything_of_a_catalog_that_was_there_first(trapped: Bench, trap: str):
    """On PostgreSQL 15 the attacker himself makes others members of his role."""
    trapped.run("attacker", TRAPS[trap])
    make_member(trapped, "writer", "attacker")

    assert code_of_connecting(trapped, trapped.dsn_of("owner")) == "ST215"
    assert nothing_ran(trapped)
    for may_become_owner in ("writer", "admin"):
        code_of_connecting(trapped, trapped.dsn_of(may_become_owner))
        assert nothing_ran(trapped)


def test_superuser_who_only_sets_the_role_is_made_to_log_in(trapped: Bench):
    """What he would run could RESET ROLE."""
    trapped.run("attacker", TRAPS["trigger"])
    dsn = make_conninfo(trapped.dsn, options=f"-c role={trapped.roles['attacker']}")

    code_of_connecting(trapped, dsn)

    assert nothing_ran(trapped)


@pytest.mark.parametrize("barred", ["NOLOGIN", "CONNECTION LIMIT 0"])
def test_owner_who_cannot_log_in_is_not_impersonated(trapped: Bench, barred: str):
    trapped.run("attacker", TRAPS["trigger"])
    make_member(trapped, "owner", "attacker")
    trapped.run("admin", f"ALTER ROLE {{attacker}} {barred}")

    for who in ("admin", "owner"):
        assert code_of_connecting(trapped, trapped.dsn_of(who)) == "ST215"
    assert nothing_ran(trapped)


@pytest.mark.parametrize("schema", ["pgtrickle", "pgtrickle_changes", "pgtrickle_state"])
def test_empty_schema_of_a_stranger_is_refused(bench: Bench, schema: str):
    set_traps(bench)
    bench.run("attacker", f"CREATE SCHEMA {schema}", f"GRANT ALL ON SCHEMA {schema} TO PUBLIC")

    assert code_of_connecting(bench, bench.dsn_of("owner")) == "ST215"


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_schema_that_appears_between_two_steps_is_not_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, who: str
):
    set_traps(bench)
    looked: list[object] = []

    def look_and_be_overtaken(connection: psycopg.Connection[TupleRow]) -> object:
        looked.append(check_trust(connection))
        if len(looked) == 1:
            bench.run(
                "attacker",
                "CREATE SCHEMA pgtrickle",
                "CREATE VIEW pgtrickle.pgt_schema_version AS"
                " SELECT 1 AS version, trap.text('') AS sha256",
                "GRANT ALL ON SCHEMA pgtrickle TO PUBLIC",
                "GRANT ALL ON pgtrickle.pgt_schema_version TO PUBLIC",
            )
        return looked[-1]

    monkeypatch.setattr(migrate, "check_trust", look_and_be_overtaken)

    assert code_of_connecting(bench, bench.dsn_of(who)) == "ST215"
    assert nothing_ran(bench)


FOOTHOLDS = {
    "create on the catalog": ("GRANT CREATE, USAGE ON SCHEMA pgtrickle TO {attacker}", ""),
    "create on buffers": ("GRANT CREATE ON SCHEMA pgtrickle_changes TO PUBLIC", ""),
    "function": (
        "GRANT CREATE, USAGE ON SCHEMA pgtrickle TO {attacker}",
        "CREATE FUNCTION pgtrickle.find_idle(text) RETURNS text LANGUAGE sql AS 'SELECT 1'",
    ),
    "operator": (
        "GRANT CREATE, USAGE ON SCHEMA pgtrickle TO {attacker}",
        "CREATE OPERATOR pgtrickle.= (FUNCTION = trap.same, LEFTARG = text, RIGHTARG = text)",
    ),
    "type": (
        "GRANT CREATE, USAGE ON SCHEMA pgtrickle TO {attacker}",
        "CREATE DOMAIN pgtrickle.text AS pg_catalog.text CHECK (trap.fits(VALUE))",
    ),
    "buffer": (
        "GRANT CREATE, USAGE ON SCHEMA pgtrickle_changes TO {attacker}",
        "CREATE TABLE pgtrickle_changes.changes_4711 (__xid xid8)",
    ),
    "state": (
        "GRANT CREATE, USAGE ON SCHEMA pgtrickle_state TO {attacker}",
        "CREATE TABLE pgtrickle_state.st_4711_group_0 (k int)",
    ),
    "trigger": (
        "GRANT USAGE ON SCHEMA pgtrickle TO {attacker};"
        " GRANT TRIGGER ON pgtrickle.pgt_requests TO {attacker}",
        "CREATE TRIGGER a BEFORE INSERT OR UPDATE ON pgtrickle.pgt_requests"
        " FOR EACH ROW EXECUTE FUNCTION trap.on_row()",
    ),
    "right to triggers": (
        "GRANT USAGE ON SCHEMA pgtrickle TO {attacker};"
        " GRANT TRIGGER ON pgtrickle.pgt_requests TO {attacker}",
        "",
    ),
    "right of all to triggers": (
        "GRANT USAGE ON SCHEMA pgtrickle TO {attacker};"
        " GRANT ALL ON pgtrickle.pgt_leases TO PUBLIC",
        "",
    ),
    "foreign key": (
        "GRANT USAGE ON SCHEMA pgtrickle TO {attacker};"
        " GRANT REFERENCES ON pgtrickle.pgt_requests TO {attacker}",
        "CREATE TABLE trap.followers (id bigint REFERENCES pgtrickle.pgt_requests"
        " ON DELETE CASCADE)",
    ),
}


@pytest.mark.parametrize("foothold", FOOTHOLDS)
def test_foothold_in_the_catalog_refuses_the_connection(shared: Bench, foothold: str):
    granted, used = FOOTHOLDS[foothold]
    make_member(shared, "writer", "owner")
    shared.run("owner", granted)
    if used:
        shared.run("attacker", used)
        shared.run(
            "owner",
            "REVOKE CREATE ON SCHEMA pgtrickle, pgtrickle_changes, pgtrickle_state FROM {attacker}",
            "REVOKE TRIGGER, REFERENCES ON pgtrickle.pgt_requests FROM {attacker} CASCADE"
            if foothold != "foreign key"
            else "SELECT 1",
        )

    for who in ("owner", "admin", "writer"):
        assert code_of_connecting(shared, shared.dsn_of(who)) == "ST215"
    assert nothing_ran(shared)


@pytest.mark.parametrize("trap", TRAPS)
def test_nothing_in_the_catalog_calls_what_a_stranger_can_replace(shared: Bench, trap: str):
    """However it came there: it is the attacker who may replace the function."""
    harmless = "CREATE OR REPLACE FUNCTION trap.{} LANGUAGE plpgsql AS $$BEGIN RETURN {}; END$$"
    shared.run(
        "attacker",
        harmless.format("text(text) RETURNS text IMMUTABLE", "$1"),
        harmless.format("fits(text) RETURNS boolean IMMUTABLE", "true"),
        harmless.format("same(text, text) RETURNS boolean IMMUTABLE", "true"),
    )
    shared.run("owner", TRAPS[trap])

    assert code_of_connecting(shared, shared.dsn_of("owner")) == "ST215"
    assert nothing_ran(shared)


HANDED_OVER = {
    "schema": "ALTER SCHEMA pgtrickle_state OWNER TO {attacker}",
    "table": "ALTER TABLE pgtrickle.pgt_settings OWNER TO {attacker}",
    "function": "ALTER FUNCTION pgtrickle.watch_ddl() OWNER TO {attacker}",
    "child": "CREATE TABLE trap.heir () INHERITS (pgtrickle.pgt_settings);"
    " ALTER TABLE trap.heir OWNER TO {attacker}",
    "parent": "CREATE TABLE trap.parent ();"
    " ALTER TABLE pgtrickle.pgt_settings INHERIT trap.parent;"
    " ALTER TABLE trap.parent OWNER TO {attacker}",
}


@pytest.mark.parametrize("what", HANDED_OVER)
def test_what_was_handed_over_is_not_used(shared: Bench, what: str):
    shared.run("admin", HANDED_OVER[what])

    for who in ("owner", "admin"):
        assert code_of_connecting(shared, shared.dsn_of(who)) == "ST215"


def test_running_daemon_and_doctor_notice(shared: Bench):
    with shared.trickle() as trickle:
        shared.run("owner", "GRANT CREATE ON SCHEMA pgtrickle TO {attacker}")
        trickle.daemon._trusted_at = float("-inf")

        with pytest.raises(TrickleError) as caught:
            trickle.daemon.check_catalog()
        [check] = [one for one in trickle.doctor() if one.name == "owner of the catalog"]

    assert caught.value.code == "ST215"
    assert not check.ok
    assert "REVOKE CREATE" in check.hint


def test_function_that_event_triggers_call_is_a_superusers(shared: Bench):
    with shared.trickle("admin"):
        pass
    assert shared.value("admin", "SELECT count(*) FROM pg_event_trigger") == 0
    shared.run(
        "owner",
        "CREATE OR REPLACE FUNCTION pgtrickle.watch_ddl() RETURNS event_trigger LANGUAGE plpgsql"
        " AS $$BEGIN ALTER ROLE {attacker} SUPERUSER; END$$",
    )

    shared.run("admin", "CREATE TABLE shop.other (id int)")

    assert not shared.is_superuser("attacker")


def test_event_triggers_of_an_earlier_version_are_told_of_and_dropped(shared: Bench):
    shared.run(
        "admin",
        "CREATE EVENT TRIGGER pgtrickle_watch ON ddl_command_end"
        " EXECUTE FUNCTION pgtrickle.watch_ddl()",
        "CREATE EVENT TRIGGER pgtrickle_watch_drop ON sql_drop"
        " EXECUTE FUNCTION pgtrickle.watch_ddl()",
    )
    with shared.trickle() as trickle:
        [check] = [one for one in trickle.doctor() if one.name == "event triggers"]
    assert not check.ok
    assert "DROP EVENT TRIGGER" in check.hint

    with shared.trickle("admin"):
        assert shared.value("admin", "SELECT count(*) FROM pg_event_trigger") == 0


def test_event_triggers_go_even_if_the_catalog_is_refused(bench: Bench):
    with bench.trickle("admin"):
        pass
    bench.run("admin", "ALTER FUNCTION pgtrickle.watch_ddl() OWNER TO {attacker}")

    assert code_of_connecting(bench, bench.dsn_of("admin")) == "ST215"
    assert bench.value("admin", "SELECT count(*) FROM pg_event_trigger") == 0


def test_superuser_has_event_triggers_in_a_catalog_of_his_own(bench: Bench):
    with bench.trickle("admin") as trickle:
        assert bench.value("admin", "SELECT count(*) FROM pg_event_trigger") == 2
        assert all(one.ok for one in trickle.doctor() if one.name == "event triggers")
    with bench.trickle("admin"):
        assert bench.value("admin", "SELECT count(*) FROM pg_event_trigger") == 2


OWNERS = """
    SELECT array_agg(DISTINCT pg_get_userbyid(c.relowner)::text)
      FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname LIKE 'pgtrickle%' OR n.nspname = 'shop'
"""


@pytest.mark.parametrize("who", ["admin", "writer"])
def test_those_who_may_act_as_the_owner_work_as_the_owner(shared: Bench, who: str):
    make_member(shared, "writer", "owner")
    with shared.lab(who) as lab:
        lab.create("shop.total", "SELECT count(*) AS n FROM shop.orders")
        shared.run("owner", "INSERT INTO shop.orders VALUES (9, 'east', 1)")
        lab.trickle.refresh_stream_table("shop.revenue")
        lab.trickle.refresh_stream_table("shop.total")
        assert lab.trickle.verify_stream_table("shop.total").ok
        assert all(one.ok for one in lab.trickle.doctor() if one.name == "owner of the catalog")

    assert shared.value("admin", OWNERS) == [shared.roles["owner"]]


def test_member_says_in_the_dsn_that_he_acts_as_the_owner(shared: Bench):
    """As for a group that cannot log in; the pool's sessions do as the first one."""
    make_member(shared, "writer", "owner")
    shared.run("admin", "ALTER ROLE {owner} NOLOGIN")
    plain = shared.dsn_of("writer")
    assert code_of_connecting(shared, plain) == "ST215"

    said = make_conninfo(plain, options=f"-c role={shared.roles['owner']}")

    assert code_of_connecting(shared, said) is None
    shared.run("admin", "ALTER ROLE {owner} LOGIN")


def test_superuser_works_on_the_catalog_of_another_superuser(bench: Bench):
    with bench.trickle("admin"):
        pass
    bench.run("admin", "ALTER ROLE {owner} SUPERUSER")
    with bench.lab("owner") as lab:
        lab.create("shop.revenue", REVENUE)

    assert code_of_connecting(bench, bench.dsn_of("admin")) is None


def test_default_privileges_open_no_schema(bench: Bench):
    everything = "ALTER DEFAULT PRIVILEGES GRANT ALL ON {} TO {{attacker}}, PUBLIC"
    bench.run("owner", *(everything.format(kind) for kind in ("SCHEMAS", "TABLES", "FUNCTIONS")))

    for _ in range(2):
        assert code_of_connecting(bench, bench.dsn_of("owner")) is None

    for schema in ("pgtrickle", "pgtrickle_changes", "pgtrickle_state"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bench.run("attacker", f"CREATE TABLE {schema}.mine ()")


@pytest.mark.parametrize("level", ["reader", "operator"])
def test_levels_of_access_do_not_make_the_catalog_foreign(shared: Bench, level: str):
    role = shared.roles["reader"]
    shared.value("owner", f"SELECT pgtrickle.grant_access('{role}', '{level}')")

    assert shared.value("reader", "SELECT count(*) FROM pgtrickle.pgt_status()") == 1
    assert code_of_connecting(shared, shared.dsn_of("owner")) is None
    assert code_of_connecting(shared, shared.dsn_of("reader")) is None  # a guest


def test_a_schema_of_a_stranger_gets_no_self_monitoring(bench: Bench):
    bench.run("admin", "GRANT CREATE ON DATABASE {database} TO {attacker}")
    bench.run("attacker", "CREATE SCHEMA pgtrickle_monitoring")
    bench.run("admin", "GRANT ALL ON SCHEMA pgtrickle_monitoring TO {owner}")

    with bench.trickle() as trickle, pytest.raises(TrickleError) as caught:
        trickle.insight.setup_self_monitoring()

    assert caught.value.code == "ST202"
    assert bench.roles["attacker"] in str(caught.value)
