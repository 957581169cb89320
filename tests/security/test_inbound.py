"""Inbound pipelines name brokers and secrets, and write: only the owner has to do with them."""

from __future__ import annotations

from pathlib import Path

from tests.relay.inbound.brokers import redis
from tests.security.bench import Bench
from tests.security.serving import refused, stocked

CALLS = (
    "SELECT pgtrickle.create_inbound_pipeline('q', 'shop.mail', 'redis')",
    "SELECT pgtrickle.drop_inbound_pipeline('p')",
    "SELECT pgtrickle.pause_inbound('p')",
    "SELECT pgtrickle.resume_inbound('p', true)",
    "SELECT pgtrickle.inbound_dead_letters('p')",
    "SELECT pgtrickle.replay_inbound_dead_letters('p')",
    "SELECT count(*) FROM pgtrickle.pgt_inbound_pipelines",
    "SELECT count(*) FROM pgtrickle.pgt_inbound_states",
    "SELECT count(*) FROM pgtrickle.pgt_inbound_places",
    "SELECT count(*) FROM pgtrickle.pgt_inbound_dead_letters",
)


def test_guests_see_what_pipelines_do_and_nothing_else(bench: Bench):
    with stocked(bench, "attacker") as lab:
        lab.trickle.inbox.create_inbox("shop.mail", with_stats=False)
        options = {"url": "redis://user:hidden@localhost", "stream": "s"}
        lab.trickle.inbound.create_inbound_pipeline("p", "shop.mail", "redis", options)
        attacker = bench.open("attacker")

        for call in CALLS:
            assert refused(attacker, call) == "42501", call
        shown = attacker.execute("SELECT s::text FROM pgtrickle.inbound_status() AS s").fetchall()
        assert "hidden" not in str(shown)
        assert "redis" in str(shown)


def test_a_relay_does_not_write_to_a_table_of_another_owner(bench: Bench, tmp_path: Path):
    with stocked(bench, "attacker") as lab, redis(tmp_path) as broker:
        lab.trickle.inbox.create_inbox("shop.mail", with_stats=False)
        lab.trickle.inbound.create_inbound_pipeline("p", "shop.mail", "redis", broker.options)
        bench.run(
            "admin",
            "ALTER TABLE shop.mail OWNER TO {attacker}",
            "GRANT USAGE, CREATE ON SCHEMA shop TO {attacker}",
        )
        bench.run(
            "attacker",
            "CREATE FUNCTION shop.gain() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN EXECUTE ''GRANT {owner} TO {attacker}''; RETURN NEW; END'",
            "CREATE TRIGGER gain BEFORE INSERT ON shop.mail"
            " FOR EACH ROW EXECUTE FUNCTION shop.gain()",
            "GRANT ALL ON shop.mail TO {owner}",
        )
        broker.send([("a", "{}")])
        [found] = lab.trickle.inbound.run_inbound(once=True)
        assert (found.error_code, found.messages) == ("ST842", 0)
        assert bench.value("admin", "SELECT count(*) FROM shop.mail") == 0
