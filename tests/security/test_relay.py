"""Pipelines name receivers and secrets: only the owner of the catalog has to do with them."""

from __future__ import annotations

from pathlib import Path

from tests.relay.shop import write_file
from tests.security.bench import Bench
from tests.security.serving import refused, stocked

CALLS = (
    "SELECT pgtrickle.create_relay_pipeline('q', 'shop.revenue', 'stdout')",
    "SELECT pgtrickle.drop_relay_pipeline('p')",
    "SELECT pgtrickle.pause_relay('p')",
    "SELECT pgtrickle.resume_relay('p', true)",
    "SELECT pgtrickle.relay_dead_letters('p')",
    "SELECT pgtrickle.replay_dead_letters('p')",
    "SELECT count(*) FROM pgtrickle.pgt_relay_pipelines",
    "SELECT count(*) FROM pgtrickle.pgt_relay_states",
    "SELECT count(*) FROM pgtrickle.pgt_relay_dead_letters",
)


def test_guests_see_what_pipelines_do_and_nothing_else(bench: Bench):
    with stocked(bench, "attacker") as lab:
        lab.trickle.outbox.enable_outbox("shop.revenue")
        options = {"url": "https://user:hidden@example.com", "secret": "hidden"}
        lab.trickle.relay.create_relay_pipeline("p", "shop.revenue", "webhook", options)
        attacker = bench.open("attacker")

        for call in CALLS:
            assert refused(attacker, call) == "42501", call
        shown = attacker.execute("SELECT s::text FROM pgtrickle.relay_status() AS s").fetchall()
        assert "hidden" not in str(shown)
        assert "webhook" in str(shown)


def test_nobody_lets_entries_go_that_a_relay_needs(bench: Bench, tmp_path: Path):
    with stocked(bench, "attacker") as lab:
        lab.trickle.outbox.enable_outbox("shop.revenue")
        bench.run("owner", f"GRANT SELECT ON shop.revenue TO {bench.roles['attacker']}")
        bench.run(
            "attacker",
            "SELECT pgtrickle.create_consumer_group('relay:p', 'shop.revenue', 'latest')",
        )
        given = {
            "stream_table": "shop.revenue",
            "sink": "file",
            "options": {"path": str(tmp_path / "changes.jsonl")},
        }
        file = write_file(tmp_path / "relay.json", p=given)
        lab.trickle.relay.run_relay(file, once=True)

        [found] = lab.trickle.relay.relay_status("p")
        assert (found.error, found.messages) == (None, 3)
        for call in (
            "SELECT pgtrickle.seek_offset('relay:p', 0)",
            "SELECT pgtrickle.drop_consumer_group('relay:p')",
        ):
            assert refused(bench.open("attacker"), call) == "ST803"
