"""Attacks on switches: nobody but the owner of the catalog turns them for the owner's processes."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.service.capturing.switch import follow_switch
from tests.security.bench import Bench
from tests.security.serving import stocked

SWITCHES = ("cdc_paused", "force_full_refresh")
DENIED = {
    "set_setting": "SELECT pgtrickle.set_setting('cdc_paused', 'on')",
    "table": "UPDATE pgtrickle.pgt_settings SET value = 'on' WHERE name = 'cdc_paused'",
    "quiesce": "CALL pgtrickle.quiesce(0)",
    "drain": "INSERT INTO pgtrickle.pgt_scheduler_pauses (pgt_id) VALUES (NULL)",
    "resume_all": "SELECT pgtrickle.resume_all()",
    "paces": "DELETE FROM pgtrickle.pgt_paces",
    "leader": "UPDATE pgtrickle.pgt_leader SET saturation = '{}'",
    "pauses": "DELETE FROM pgtrickle.pgt_switched_pauses",
}


@pytest.mark.parametrize("attack", DENIED)
def test_what_only_the_owner_may(bench: Bench, attack: str):
    with stocked(bench, "attacker") as lab:
        lab.run("SELECT pgtrickle.grant_access('{}', 'operator')".format(bench.roles["attacker"]))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            bench.run("attacker", DENIED[attack])


def test_assignments_of_a_role_turn_no_switch_of_anothers_process(bench: Bench):
    with stocked(bench, "attacker") as lab:
        for name in SWITCHES:
            bench.run("attacker", f"SET pg_trickle.{name} = on")
        for whose in ("DATABASE {database}", "ROLE {owner}", "ROLE ALL", "ROLE {attacker}"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                bench.run("attacker", f"ALTER {whose} SET pg_trickle.cdc_paused = on")
        for name in SWITCHES:  # even if a superuser lets the role have them
            bench.run("admin", f"ALTER ROLE {{attacker}} SET pg_trickle.{name} = on")
        lab.trickle._runtime.look_at_settings()

        settings = lab.trickle._runtime.settings
        assert not settings.cdc_paused
        assert not settings.force_full_refresh
        assert follow_switch(lab.trickle._runtime) == []
        for name in SWITCHES:
            bench.run("admin", f"ALTER ROLE {{attacker}} RESET pg_trickle.{name}")


def test_no_value_of_the_database_runs_as_a_statement(bench: Bench):
    """Names and values of parameters are data, whatever is written in them."""
    with stocked(bench, "attacker") as lab:
        name = "pg_trickle.trim_rows"
        bench.run("admin", f"ALTER DATABASE {{database}} SET {name} = '1''; DROP TABLE x; --'")
        before = lab.trickle._runtime.settings.trim_rows
        lab.trickle._runtime.look_at_settings()

        assert lab.trickle._runtime.settings.trim_rows == before
