"""Inboxes on a shared server: who may read them, and what a hostile owner could put on them."""

from __future__ import annotations

import pytest

from pgtrickle.errors import TrickleError
from pgtrickle.service.inboxes.prune import prune_inboxes
from tests.security.bench import Bench
from tests.security.serving import refused, serving, stocked

HOSTILE = 'shop."in; DROP TABLE shop.orders --"'
CHANGES = (
    "create_inbox('mine', 'shop')",
    "drop_inbox('shop.mail')",
    "enable_inbox_ordering('shop.mail')",
    "disable_inbox_ordering('shop.mail')",
    "enable_inbox_priority('shop.mail')",
    "disable_inbox_priority('shop.mail')",
)


def test_a_role_sees_and_changes_only_inboxes_that_it_may_read(bench: Bench):
    with stocked(bench, "attacker") as lab:
        lab.trickle.inbox.create_inbox("mail", "shop")
        attacker = bench.open("attacker")

        assert attacker.execute("SELECT * FROM pgtrickle.inbox_status()").fetchall() == []
        assert attacker.execute("SELECT * FROM pgtrickle.inbox_health()").fetchall() == []
        for function in ("inbox_status", "replay_inbox_messages", "inbox_ordering_gaps"):
            assert refused(attacker, f"SELECT pgtrickle.{function}('shop.mail')") == "ST841"
        for table in ("pgt_inboxes", "pgt_inbox_parts"):
            assert bench.value("attacker", f"SELECT count(*) FROM pgtrickle.{table}") == 0
            assert refused(attacker, f"DELETE FROM pgtrickle.{table}") == "42501"
        with serving(lab):
            for call in CHANGES:
                assert refused(attacker, f"CALL pgtrickle.{call}") == "ST303", call

        bench.run("owner", "GRANT SELECT ON shop.mail TO {attacker}")
        assert attacker.execute("SELECT * FROM pgtrickle.inbox_status()").fetchall() == []
        bench.run("owner", "GRANT USAGE ON SCHEMA shop TO {attacker}")
        assert len(attacker.execute("SELECT * FROM pgtrickle.inbox_status()").fetchall()) == 1
        lab.run("INSERT INTO shop.mail (event_id, retry_count) VALUES ('a', 5)")
        assert refused(attacker, "SELECT pgtrickle.replay_inbox_messages('shop.mail')") == "42501"


def test_hostile_names_are_names(bench: Bench):
    with stocked(bench, "attacker") as lab:
        verbs = lab.trickle.inbox
        verbs.create_inbox(HOSTILE)
        lab.run(
            f"""ALTER TABLE {HOSTILE} ADD COLUMN "a'); --" text, ADD COLUMN "b"" %" numeric""",
            f"INSERT INTO {HOSTILE} (event_id, retry_count) VALUES ('x'' --', 9)",
        )
        verbs.enable_inbox_ordering(HOSTILE, "a'); --", 'b" %')
        verbs.enable_inbox_priority(HOSTILE, 'b" %')
        assert verbs.inbox_ordering_gaps(HOSTILE) == []
        assert verbs.replay_inbox_messages(HOSTILE, ["x' --"]) == 1
        assert {one.severity for one in verbs.inbox_health(HOSTILE)} == {"OK"}
        verbs.drop_inbox(HOSTILE)
        assert lab.value("SELECT count(*) FROM shop.orders") > 0


def test_the_daemon_does_not_write_to_a_table_of_another_owner(bench: Bench):
    with stocked(bench, "attacker") as lab:
        lab.trickle.inbox.create_inbox("mail", "shop", retention_hours=0, with_stats=False)
        lab.run("INSERT INTO shop.mail (event_id, processed_at) VALUES ('a', 'yesterday')")
        # Triggers of the new owner would run with the rights of the daemon.
        bench.run("admin", "ALTER TABLE shop.mail OWNER TO {attacker}")
        assert prune_inboxes(lab.trickle._runtime) == 0
        assert lab.value("SELECT count(*) FROM pgtrickle.pgt_inboxes") == 1
        found = bench.value("owner", "SELECT pgtrickle.inbox_trouble('shop.mail')")
        assert "belongs to" in str(found)
        with pytest.raises(TrickleError, check=lambda error: error.code == "ST842"):
            lab.trickle.inbox.enable_inbox_ordering("shop.mail")
