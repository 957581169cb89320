"""Changes show whole rows: who may read them all does, and nobody takes what is another's."""

from __future__ import annotations

from tests.labs.lab import Lab
from tests.security.bench import Bench
from tests.security.serving import refused, stocked

ROWS = "SELECT count(*) FROM pgtrickle.outbox_rows('shop.revenue')"
TABLES = ("pgt_outbox_entries", "pgt_outbox_rows", "pgt_outbox_schemas")


def streamed(bench: Bench, lab: Lab, *readers: str) -> None:
    """Let the changes of the revenue be followed, and let some roles read it."""
    lab.trickle.outbox.enable_outbox("shop.revenue", inline_threshold_rows=0)
    bench.run("writer", "INSERT INTO shop.orders VALUES (77, 'west', 77)")
    lab.trickle.refresh_stream_table("shop.revenue")
    for one in readers:
        bench.run("owner", f"GRANT SELECT ON shop.revenue TO {bench.roles[one]}")


def test_who_may_not_read_a_stream_table_does_not_read_its_changes(bench: Bench):
    with stocked(bench, "attacker") as lab:
        streamed(bench, lab)
        attacker = bench.open("attacker")

        for function in ("rows", "entries", "position", "schema"):
            call = f"SELECT * FROM pgtrickle.outbox_{function}('shop.revenue')"
            assert refused(attacker, call) == "ST303", function
        for table in TABLES:
            assert bench.value("attacker", f"SELECT count(*) FROM pgtrickle.{table}") == 0
        assert refused(attacker, "SELECT count(*) FROM pgtrickle.pgt_outbox_pending") == "42501"
        group = "SELECT pgtrickle.create_consumer_group('g', 'shop.revenue')"
        assert refused(attacker, group) == "ST303"
        act = (
            "INSERT INTO pgtrickle.consumer_acts (act, group_name, stream_table, word)"
            " SELECT 'create', 'g', pgt_id, 'latest' FROM pgtrickle.pgt_stream_tables"
        )
        assert refused(attacker, act) == "ST303"


def test_a_policy_that_hides_rows_hides_all_changes(bench: Bench):
    with stocked(bench, "attacker") as lab:
        streamed(bench, lab, "attacker")
        assert bench.value("attacker", ROWS) != 0
        bench.run(
            "owner",
            "ALTER TABLE shop.revenue ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY few ON shop.revenue USING (region = 'east')",
        )

        assert refused(bench.open("attacker"), ROWS) == "ST303"
        for table in TABLES:
            assert bench.value("attacker", f"SELECT count(*) FROM pgtrickle.{table}") == 0
        assert bench.value("owner", ROWS) != 0


def test_some_columns_are_not_enough(bench: Bench):
    with stocked(bench, "attacker") as lab:
        streamed(bench, lab)
        bench.run("owner", f"GRANT SELECT (region) ON shop.revenue TO {bench.roles['attacker']}")

        assert refused(bench.open("attacker"), ROWS) == "ST303"


def test_nobody_takes_part_in_the_group_of_another(bench: Bench):
    with stocked(bench, "attacker", "writer") as lab:
        streamed(bench, lab, "attacker", "writer")
        writer, attacker = bench.open("writer"), bench.open("attacker")
        writer.execute("SELECT pgtrickle.create_consumer_group('g', 'shop.revenue', 'earliest')")

        for call in (
            "SELECT * FROM pgtrickle.poll_outbox('g', 'a')",
            "SELECT pgtrickle.commit_offset('g', 'a', 1)",
            "SELECT pgtrickle.extend_lease('g', 'a')",
            "SELECT pgtrickle.seek_offset('g', 1)",
            "SELECT pgtrickle.consumer_heartbeat('g', 'a')",
            "SELECT pgtrickle.drop_consumer_group('g')",
            "SELECT pgtrickle.create_consumer_group('g', 'shop.revenue')",
        ):
            assert refused(attacker, call) == "ST803", call
        owner = bench.roles["writer"]
        forged = (
            "INSERT INTO pgtrickle.consumer_acts (act, group_name, caller)"
            f" VALUES ('drop', 'g', '{owner}'::regrole)"
        )
        assert refused(attacker, forged) == "42501"
        for table in ("groups", "offsets", "leases"):
            count = f"SELECT count(*) FROM pgtrickle.pgt_consumer_{table}"
            assert bench.value("attacker", count) == 0
            write = f"DELETE FROM pgtrickle.pgt_consumer_{table}"
            assert refused(attacker, write) == "42501"
        assert bench.value("attacker", "SELECT count(*) FROM pgtrickle.consumer_lag()") == 0
        polled = "SELECT count(*) FROM pgtrickle.poll_outbox('g', 'a')"
        assert bench.value("writer", polled) == 1
        bench.run("owner", f"REVOKE SELECT ON shop.revenue FROM {owner}")
        assert refused(bench.open("writer"), polled) == "ST303"


def test_only_the_owner_gives_and_takes_an_outbox(bench: Bench):
    with stocked(bench, "attacker") as lab:
        streamed(bench, lab, "attacker")
        attacker = bench.open("attacker")

        for call in ("disable_outbox('shop.revenue')", "enable_outbox('shop.revenue', 0)"):
            refusal = refused(attacker, f"CALL pgtrickle.{call}")
            assert refusal in {"ST206", "ST601"}, call
        assert bench.value("owner", ROWS) != 0
