"""Guests on a catalog: readers and operators look and ask, and run nothing of its owner unasked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import pgtrickle
from pgtrickle.client.commands import when_free
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import TrickleError
from tests.fixtures.engines import Borrowed
from tests.security.bench import REVENUE, Bench
from tests.security.test_whose_catalog import TRAPS
from tests.security.traps import nothing_ran, set_traps

TRUST = "ALTER DATABASE {database} SET pg_trickle.trusted_owner = '%s'"


@pytest.fixture
def shared(bench: Bench) -> Bench:
    """Let the owner have a catalog, on which others are guests."""
    with bench.trickle() as trickle:
        trickle.create_stream_table("shop.revenue", REVENUE)
    bench.run(
        "owner",
        f"SELECT pgtrickle.grant_access('{bench.roles['reader']}', 'reader')",
        f"SELECT pgtrickle.grant_access('{bench.roles['writer']}', 'operator')",
    )
    return bench


def trust(bench: Bench) -> None:
    bench.run("admin", TRUST % bench.roles["owner"])


def code_of(act: Callable[[], object]) -> str | None:
    try:
        act()
    except TrickleError as error:
        return error.code
    return None


@pytest.mark.parametrize("who", ["reader", "writer"])
def test_guests_look(shared: Bench, who: str):
    with shared.trickle() as trickle:
        shared.run("owner", "INSERT INTO shop.orders VALUES (9, 'east; ''x'' %s', 1)")
        trickle.refresh_stream_table("shop.revenue")
        seen = trickle.list_stream_tables(), trickle.refresh_history("shop.revenue")
        parents, settings = trickle.insight.dependencies(), trickle.list_settings()

    with shared.trickle(who) as guest:
        assert (guest.list_stream_tables(), guest.refresh_history("shop.revenue")) == seen
        assert guest.get_stream_table("shop.revenue") == seen[0][0]
        assert code_of(lambda: guest.get_stream_table("shop.nothing")) == "ST201"
        assert guest.insight.dependencies() == parents
        assert guest.insight.diagnose_errors("shop.revenue") == []
        assert [one.name for one in guest.list_settings()] == [one.name for one in settings]
        assert "shop.orders" in guest.explain_stream_table("shop.revenue")
        assert all(one.ok for one in guest.doctor() if one.name not in {"java", "spark"})


def test_guest_who_trusts_sees_what_functions_tell(shared: Bench):
    with shared.trickle("reader") as guest:
        assert code_of(guest.scheduler.list_holds) == "ST215"
        assert code_of(guest.capture.check_cdc_health) == "ST215"
    trust(shared)

    with shared.trickle("reader") as guest:
        assert guest.scheduler.list_holds() == []
        assert len(guest.capture.check_cdc_health()) == 1
        assert len(guest.list_stream_tables()) == 1


def test_reader_sees_the_lake(shared: Bench, tmp_path: Path):
    path, lake_table = str(tmp_path / "lake"), "shop.copy"
    with shared.trickle() as trickle:
        trickle.create_stream_table(
            "shop.copy",
            REVENUE,
            sink="ducklake",
            ducklake_sink_path=path,
            ducklake_table=lake_table,
        )
        trickle.lake.attach_ducklake_table("shop.landed", lake_table)
        seen = trickle.lake.ducklake_sources()
        [catalog] = trickle.lake.ducklake_catalogs()

    with shared.trickle("reader") as guest:
        assert guest.lake.ducklake_sources() == seen
        assert code_of(guest.lake.ducklake_catalogs) == "ST215"
    trust(shared)

    with shared.trickle("reader") as guest:
        assert guest.lake.ducklake_sources() == seen
        [told] = guest.lake.ducklake_catalogs()
    assert replace(told, attach=catalog.attach) == catalog
    assert "METADATA_SCHEMA 'ducklake'" in told.attach


def test_reader_who_trusts_sees_the_state_of_everything(shared: Bench):
    trust(shared)

    with shared.trickle("reader") as guest:
        report = guest.status()
        assert (report.stream_tables, report.severity.value) == (1, "CRITICAL")  # no daemon
        assert report.checks == guest.health_check()
        assert [one.node for one in guest.insight.dependency_tree()] == [
            "shop.revenue",
            "shop.orders",
        ]
        assert [one.stream_table for one in guest.scheduler.fuse_status()] == ["shop.revenue"]
        assert guest.scheduler.bootstrap_gate_status() == []
        assert guest.scheduler.refresh_groups() == []
        assert guest.scheduler.watermarks() == []
        assert guest.scheduler.watermark_status() == []
        assert list(guest.follow(["shop.revenue"], seconds=0.1)) == []


def test_setting_of_the_guests_own_says_whom_he_trusts(
    shared: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGTRICKLE_TRUSTED_OWNER", shared.roles["owner"])
    with shared.trickle("reader") as guest:
        assert guest.scheduler.list_holds() == []
    monkeypatch.setenv("PGTRICKLE_TRUSTED_OWNER", shared.roles["attacker"])
    with shared.trickle("reader") as guest:
        assert code_of(guest.scheduler.list_holds) == "ST215"


HELD = (
    "INSERT INTO pgtrickle.pgt_leases AS l (pgt_id, owner, token, acquired_at, expires_at)"
    " SELECT pgt_id, 'elsewhere:1:x', 4711, now(), now() + interval '1 hour'"
    " FROM pgtrickle.pgt_stream_tables ON CONFLICT (pgt_id) DO UPDATE"
    " SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at"
)
CHANGES: dict[str, Callable[[Trickle], object]] = {
    "refresh": lambda guest: guest.refresh_stream_table("shop.revenue"),
    "verify": lambda guest: guest.verify_stream_table("shop.revenue"),
    "alter": lambda guest: guest.alter_stream_table("shop.revenue", "5m"),
    "drop": lambda guest: guest.drop_stream_table("shop.revenue"),
    "repair": lambda guest: guest.repair_stream_table("shop.revenue"),
    "pause": lambda guest: guest.scheduler.pause_scheduler("shop.revenue"),
    "gate": lambda guest: guest.scheduler.gate_source("shop.orders"),
    "create": lambda guest: guest.create_stream_table("shop.other", REVENUE),
    "reset fuse": lambda guest: guest.scheduler.reset_fuse("shop.revenue"),
    "resume": lambda guest: guest.resume_stream_table("shop.revenue"),
    "explain delta": lambda guest: guest.insight.explain_delta("shop.revenue"),
    "create several": lambda guest: guest.bulk_create([{"name": "shop.o", "query": REVENUE}]),
    "alter several": lambda guest: guest.bulk_alter_stream_tables(["shop.revenue"], schedule="5m"),
    "drop several": lambda guest: guest.bulk_drop_stream_tables(["shop.revenue"]),
}
OWNERS: dict[str, Callable[[Trickle], object]] = {
    "init": lambda guest: guest.init(),
    "set": lambda guest: guest.set_setting("lease_seconds", "9"),
    "drain": lambda guest: guest.scheduler.drain(),
    "quiesce": lambda guest: guest.scheduler.quiesce(),
    "resume_all": lambda guest: guest.scheduler.resume_all(),
    "cdc": lambda guest: guest.capture.pause_cdc(),
    "lead": lambda guest: guest.daemon,
    "run": lambda guest: guest.run(once=True),
    "grant": lambda guest: guest.grant_access("pg_monitor", "admin"),
    "revoke": lambda guest: guest.revoke_access("pg_monitor"),
    "rewrite": lambda guest: guest.insight.explain_query_rewrite(REVENUE),
}


@pytest.mark.parametrize("trusting", [False, True])
def test_reader_changes_nothing_and_is_told_who_could_let_him(
    shared: Bench,
    trusting: bool,  # noqa: FBT001 - a parameter of the test
):
    if trusting:
        trust(shared)
    with shared.trickle("reader") as guest:
        for change in CHANGES.values():
            with pytest.raises(TrickleError) as caught:
                change(guest)
            assert caught.value.code == "ST303"
            assert "grant_access" in caught.value.hint
            assert shared.roles["owner"] in caught.value.hint
        for change in OWNERS.values():
            with pytest.raises(TrickleError) as caught:
                change(guest)
            assert caught.value.code == "ST303"
            assert shared.roles["owner"] in caught.value.hint


def test_operator_who_trusts_nobody_asks_for_nothing(shared: Bench):
    with shared.trickle("writer") as guest:
        assert {code_of(partial(act, guest)) for act in CHANGES.values()} == {"ST215"}


def test_guest_reads_the_rows_that_his_role_may_read(shared: Bench):
    with shared.trickle("reader") as guest:
        assert code_of(lambda: guest.table("shop.revenue").to_arrow()) == "ST303"
    shared.run("owner", "GRANT USAGE ON SCHEMA shop TO {reader}")
    shared.run("owner", "GRANT SELECT ON shop.revenue TO {reader}")

    with shared.trickle("reader") as guest:
        assert guest.table("shop.revenue").to_arrow().num_rows > 0


def test_owner_grants_and_revokes_access(shared: Bench):
    with shared.trickle() as owner:
        owner.revoke_access(shared.roles["reader"])
        with pytest.raises(TrickleError), shared.trickle("reader"):
            pass
        owner.grant_access(shared.roles["reader"], "reader")

    with shared.trickle("reader") as guest:
        assert len(guest.list_stream_tables()) == 1


def test_operator_asks_the_daemon(shared: Bench):
    trust(shared)
    with shared.trickle("writer") as guest:
        assert code_of(lambda: guest.refresh_stream_table("shop.revenue")) == "ST601"
    with (
        shared.trickle() as owner,
        owner.daemon.serving_requests(),
        shared.trickle("writer") as guest,
    ):
        assert code_of(lambda: guest.refresh_stream_table("shop.revenue")) == "ST206"
        assert code_of(lambda: guest.scheduler.gate_source("shop.orders")) == "ST206"
        assert "shop.orders" in guest.explain_stream_table("shop.revenue")
        shared.run("admin", "GRANT {owner} TO {writer}")
        shared.run("writer", "INSERT INTO shop.orders VALUES (9, 'east', 1)")

        report = guest.refresh_stream_table("shop.revenue")
        assert (report.action.value, report.rows_inserted) == ("DIFFERENTIAL", 1)
        assert report.reads
        assert guest.verify_stream_table("shop.revenue").ok
        assert code_of(lambda: guest.rename_stream_table("shop.revenue", "x" * 9000)) == "ST605"
        shared.run("owner", HELD)
        refresh = partial(guest.refresh_stream_table, "shop.revenue")
        assert code_of(lambda: when_free(guest, refresh, 0, print)) == "ST209"
        shared.run("owner", "DELETE FROM pgtrickle.pgt_leases")
        assert "operators:" in guest.explain_stream_table("shop.revenue")
        assert guest.alter_stream_table("shop.revenue", "5m").schedule == "5m"
        guest.scheduler.pause_scheduler("shop.revenue")
        assert [one.stream_table for one in guest.scheduler.list_holds()] == ["shop.revenue"]
        guest.scheduler.resume_scheduler("shop.revenue")
        guest.scheduler.gate_source("shop.orders")
        guest.scheduler.ungate_source("shop.orders")
        created = guest.create_stream_table("shop.other", REVENUE)
        assert created is not None
        guest.scheduler.create_refresh_group("pair", ["shop.other", "shop.revenue"])
        guest.scheduler.drop_refresh_group("pair")
        assert guest.drop_stream_table("shop.other") == ["shop.other"]


def test_role_without_access_is_refused(shared: Bench):
    with pytest.raises(TrickleError) as caught, shared.trickle("attacker"):
        pass
    assert caught.value.code == "ST215"
    assert "grant_access" in caught.value.hint


# What the owner of a hostile catalog could put before those whom he makes his guests, beside what
# others look for at each connection.
LURES = {
    **TRAPS,
    "view of stream tables": "ALTER TABLE pgtrickle.pgt_stream_tables RENAME TO genuine;"
    " CREATE VIEW pgtrickle.pgt_stream_tables AS SELECT g.*, trap.text('') AS a"
    " FROM pgtrickle.genuine AS g; GRANT SELECT ON pgtrickle.pgt_stream_tables TO PUBLIC",
    "policy on stream tables": "ALTER TABLE pgtrickle.pgt_stream_tables ENABLE ROW LEVEL SECURITY;"
    " CREATE POLICY a ON pgtrickle.pgt_stream_tables USING (trap.fits(pgt_name))",
    "folded index": "CREATE INDEX ON pgtrickle.pgt_stream_tables ((trap.text('a')))",
    "folded statistics": "CREATE STATISTICS pgtrickle.s ON (trap.text('a')), pgt_name"
    " FROM pgtrickle.pgt_stream_tables",
    "cast": "CREATE TYPE trap.name AS ENUM ('shop');"
    " CREATE FUNCTION trap.cast(trap.name) RETURNS text LANGUAGE sql AS 'SELECT trap.text(''a'')';"
    " CREATE CAST (trap.name AS text) WITH FUNCTION trap.cast(trap.name) AS IMPLICIT;"
    " DELETE FROM pgtrickle.pgt_stream_tables;"
    " ALTER TABLE pgtrickle.pgt_stream_tables ALTER COLUMN status DROP DEFAULT",
    "functions": "DROP FUNCTION pgtrickle.list_holds();"
    " CREATE FUNCTION pgtrickle.list_holds() RETURNS TABLE (pgt_id bigint, reason text)"
    " LANGUAGE sql AS 'SELECT 1::bigint, trap.text(''a'')'",
    "procedures": "CREATE OR REPLACE PROCEDURE pgtrickle.refresh_stream_table(name text,"
    ' "full" bool DEFAULT false, INOUT result jsonb DEFAULT NULL) LANGUAGE plpgsql AS'
    " $$BEGIN PERFORM trap.text('a'); END$$",
}


def look_and_ask(guest: Trickle) -> None:
    acts: list[Callable[[], object]] = [
        guest.list_stream_tables,
        guest.refresh_history,
        guest.list_settings,
        guest.insight.dependencies,
        guest.doctor,
        guest.scheduler.list_holds,
        guest.capture.check_cdc_health,
        lambda: guest.get_stream_table("shop.revenue"),
        lambda: guest.refresh_stream_table("shop.revenue"),
        lambda: guest.explain_stream_table("shop.revenue"),
    ]
    for act in acts:
        code_of(act)


@pytest.mark.parametrize("lure", LURES)
def test_hostile_catalog_runs_nothing_with_the_rights_of_its_guests(empty_bench: Bench, lure: str):
    set_traps(empty_bench)
    with empty_bench.trickle("attacker"):
        pass
    for who in ("reader", "owner"):
        name = empty_bench.roles[who]
        empty_bench.run("attacker", f"SELECT pgtrickle.grant_access('{name}', 'operator')")
    empty_bench.run("attacker", LURES[lure])

    for who in ("reader", "owner"):
        code_of(partial(_visit, empty_bench, who))
    assert nothing_ran(empty_bench)


@pytest.mark.parametrize("lure", LURES)
def test_catalog_that_turns_hostile_between_two_looks_runs_nothing(empty_bench: Bench, lure: str):
    """What was looked at when he connected may be another thing a moment later."""
    set_traps(empty_bench)
    with empty_bench.trickle("attacker"):
        pass
    empty_bench.run(
        "attacker", f"SELECT pgtrickle.grant_access('{empty_bench.roles['reader']}', 'operator')"
    )
    with empty_bench.trickle("reader") as guest:
        empty_bench.run("attacker", LURES[lure])
        look_and_ask(guest)
    assert nothing_ran(empty_bench)


def _visit(bench: Bench, who: str) -> None:
    with bench.trickle(who) as guest:
        look_and_ask(guest)


def test_trust_cannot_be_declared_by_the_catalog(empty_bench: Bench):
    set_traps(empty_bench)
    with empty_bench.trickle("attacker"):
        pass
    name = empty_bench.roles["attacker"]
    empty_bench.run(
        "attacker",
        f"SELECT pgtrickle.grant_access('{empty_bench.roles['reader']}', 'operator')",
        "INSERT INTO pgtrickle.pgt_settings (name, value, type, default_value, unit, choices, doc)"
        f" VALUES ('trusted_owner', '{name}', 'str', '', '', '{{}}', '')",
    )
    with empty_bench.trickle("reader") as guest:
        assert code_of(guest.scheduler.list_holds) == "ST215"


def test_stranger_in_the_catalog_keeps_guests_out(shared: Bench):
    trust(shared)
    shared.run("owner", "GRANT CREATE ON SCHEMA pgtrickle TO {attacker}")

    assert code_of(lambda: _visit(shared, "reader")) == "ST215"


def test_guest_reads_only_and_creates_nothing(shared: Bench):
    with (
        shared.trickle("reader") as guest,
        guest._runtime.connection() as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute("CREATE TEMPORARY TABLE t (a int)")


def test_catalog_of_a_superuser_is_trusted(empty_bench: Bench):
    with empty_bench.trickle("admin"):
        pass
    empty_bench.run(
        "admin", f"SELECT pgtrickle.grant_access('{empty_bench.roles['reader']}', 'reader')"
    )
    with empty_bench.trickle("reader") as guest:
        assert guest.scheduler.list_holds() == []


def test_long_history_is_read_to_the_newest(shared: Bench):
    shared.run(
        "owner",
        "INSERT INTO pgtrickle.pgt_refresh_history OVERRIDING SYSTEM VALUE"
        " SELECT (jsonb_populate_record(h, jsonb_build_object('refresh_id', 1000 + n))).*"
        " FROM pgtrickle.pgt_refresh_history AS h, generate_series(1, 30000) AS n",
    )
    began = time.monotonic()
    with shared.trickle("reader") as guest:
        found = guest.refresh_history("shop.revenue", limit=5)
    with shared.trickle() as trickle:
        assert [one.id for one in found] == [
            one.id for one in trickle.refresh_history("shop.revenue", limit=5)
        ]
    assert time.monotonic() - began < 20


def test_standby_is_read(shared: Bench):
    """A read-only default stands for one: nothing is written on the way to the stream tables."""
    dsn = make_conninfo(shared.dsn_of("owner"), options="-c default_transaction_read_only=on")
    with pgtrickle.connect(dsn, engine=Borrowed(shared.engine), init=False) as trickle:
        assert len(trickle.list_stream_tables()) == 1
