"""Snapshots among roles: nobody restores what is not theirs, and a forged table runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab
from tests.security.bench import REVENUE, Bench
from tests.security.test_guests import trust
from tests.security.traps import nothing_ran, set_traps

SAVED = "shop.saved"
NAME = "shop.revenue"


@pytest.fixture
def lab(bench: Bench) -> Iterator[Lab]:
    """Let the owner, an ordinary role, have a stream table and a snapshot of it."""
    set_traps(bench)
    with bench.lab() as made:
        made.create(NAME, REVENUE)
        made.trickle.snapshots.snapshot_stream_table(NAME, "saved")
        yield made


def code_of(act: Callable[[], object]) -> str | None:
    try:
        act()
    except TrickleError as error:
        return error.code
    return None


def code_of_restore(lab: Lab) -> str | None:
    return code_of(lambda: lab.trickle.snapshots.restore_from_snapshot(NAME, SAVED))


def test_ordinary_owner_takes_restores_and_drops(bench: Bench, lab: Lab):
    bench.run("writer", "UPDATE shop.orders SET amount = amount + 1")

    lab.trickle.snapshots.restore_from_snapshot(NAME, SAVED)

    lab.refresh(NAME)
    lab.trickle.snapshots.drop_snapshot(SAVED)
    assert lab.trickle.snapshots.list_snapshots() == []


def test_others_neither_read_nor_drop_nor_write_it(bench: Bench, lab: Lab):
    bench.run("admin", "GRANT USAGE ON SCHEMA shop TO {attacker}")
    for statement in (
        "SELECT FROM shop.saved",
        "DELETE FROM shop.saved",
        "DROP TABLE shop.saved",
        "SELECT FROM pgtrickle.pgt_snapshots",
        "SELECT FROM pgtrickle.list_snapshots()",
        "CALL pgtrickle.drop_snapshot('shop.saved')",
    ):
        with pytest.raises(Exception, match=r"permission denied|must be owner"):
            bench.run("attacker", statement)
    assert code_of_restore(lab) is None


def test_operator_who_is_not_the_owner_is_refused(bench: Bench, lab: Lab):
    trust(bench)
    lab.run(f"SELECT pgtrickle.grant_access('{bench.roles['writer']}', 'operator')")
    with lab.trickle.daemon.serving_requests(), bench.trickle("writer") as guest:
        verbs = guest.snapshots
        assert [str(one.table) for one in verbs.list_snapshots(NAME)] == [SAVED]
        assert code_of(lambda: verbs.snapshot_stream_table(NAME)) == "ST206"
        assert code_of(lambda: verbs.restore_from_snapshot(NAME, SAVED)) == "ST206"
        assert code_of(lambda: verbs.drop_snapshot(SAVED)) == "ST303"

        bench.run("admin", "GRANT {owner} TO {writer}")
        assert code_of(lambda: verbs.restore_from_snapshot(NAME, "shop.orders")) == "ST218"
        taken = str(verbs.snapshot_stream_table(NAME))
        assert taken.startswith("shop.snapshot_revenue_")
        assert verbs.restore_from_snapshot(NAME, taken).action.value == "REINITIALIZE"
        assert str(verbs.drop_snapshot(taken)) == taken
    assert nothing_ran(bench)


def test_reader_sees_the_list_and_asks_for_nothing(bench: Bench, lab: Lab):
    lab.run(f"SELECT pgtrickle.grant_access('{bench.roles['reader']}', 'reader')")
    with bench.trickle("reader") as guest:  # who would run functions of the owner
        assert code_of(guest.snapshots.list_snapshots) == "ST215"
    trust(bench)
    with bench.trickle("reader") as guest:
        assert [one.row_count for one in guest.snapshots.list_snapshots()] == [2]
        for act in (
            lambda: guest.snapshots.snapshot_stream_table(NAME),
            lambda: guest.snapshots.restore_from_snapshot(NAME, SAVED),
            lambda: guest.snapshots.drop_snapshot(SAVED),
        ):
            assert code_of(act) == "ST303"


FORGERIES = {
    "given away": ("ALTER TABLE shop.saved OWNER TO {attacker}",),
    "row security": ("ALTER TABLE shop.saved ENABLE ROW LEVEL SECURITY",),
    # As after a restore of the database, when tables are found by their names.
    "of its name": (
        "DROP TABLE shop.saved",
        "CREATE TABLE shop.saved (region text, total numeric,"
        " word trap.word GENERATED ALWAYS AS (trap.text(region)) STORED)",
        "INSERT INTO shop.saved VALUES ('north', 1)",
        "CREATE TRIGGER aaa AFTER INSERT ON shop.saved FOR EACH ROW EXECUTE FUNCTION trap.on_row()",
        "CREATE RULE aaa AS ON UPDATE TO shop.saved DO ALSO SELECT trap.text('a')",
        "ALTER TABLE shop.saved OWNER TO {attacker}",
        "UPDATE pgtrickle.pgt_snapshots"
        " SET frontier = jsonb_set(frontier, '{pg,system_identifier}', '\"7\"')",
    ),
}


@pytest.mark.parametrize("statements", FORGERIES.values(), ids=FORGERIES.keys())
def test_forged_table_is_not_restored_and_runs_nothing(
    bench: Bench, lab: Lab, statements: tuple[str, ...]
):
    bench.run("admin", "GRANT USAGE, CREATE ON SCHEMA shop TO {attacker}")
    for statement in statements:
        bench.run("admin", statement)
    ran = bench.value("admin", "SELECT is_called FROM trap.hits")
    bench.run("admin", "ALTER SEQUENCE trap.hits RESTART", "SELECT setval('trap.hits', 1, false)")
    assert ran in {True, False}
    before = lab.rows(f"TABLE {NAME}")

    assert code_of_restore(lab) == "ST309"

    assert lab.rows(f"TABLE {NAME}") == before
    assert nothing_ran(bench)
    lab.refresh(NAME, "NO_DATA")


def test_trigger_of_a_stranger_on_the_table_does_not_run(bench: Bench, lab: Lab):
    bench.run(
        "owner",
        "GRANT USAGE ON SCHEMA shop TO {attacker}",
        "GRANT SELECT, TRIGGER ON shop.saved TO {attacker}",
    )
    bench.run(
        "attacker",
        "CREATE TRIGGER aaa BEFORE INSERT OR UPDATE OR DELETE ON shop.saved"
        " FOR EACH ROW EXECUTE FUNCTION trap.on_row()",
    )
    bench.run("writer", "DELETE FROM shop.orders WHERE id = 1")

    lab.trickle.snapshots.restore_from_snapshot(NAME, SAVED)
    lab.trickle.snapshots.drop_snapshot(SAVED)

    assert nothing_ran(bench)


def test_schema_in_which_the_owner_may_not_create(bench: Bench, lab: Lab):
    bench.run("attacker", "CREATE SCHEMA closed")

    with pytest.raises(TrickleError) as caught:
        lab.trickle.snapshots.snapshot_stream_table(NAME, "closed.saved")

    assert caught.value.code == "ST303"
    assert "closed" in caught.value.hint
    assert len(lab.trickle.snapshots.list_snapshots()) == 1


FORGED_LAKES = {
    "a view": (
        "CREATE VIEW closed.ducklake_snapshot AS"
        " SELECT length(trap.text('a'))::bigint AS snapshot_id",
    ),
    "row security": (
        "CREATE TABLE closed.ducklake_snapshot (snapshot_id bigint)",
        "INSERT INTO closed.ducklake_snapshot VALUES (7)",
        "CREATE POLICY p ON closed.ducklake_snapshot USING (trap.text('a') = 'a')",
        "ALTER TABLE closed.ducklake_snapshot ENABLE ROW LEVEL SECURITY",
    ),
    "an index": (
        "CREATE TABLE closed.ducklake_snapshot (snapshot_id bigint)",
        "CREATE INDEX ON closed.ducklake_snapshot (trap.text(snapshot_id::text))",
    ),
}


@pytest.mark.parametrize("statements", FORGED_LAKES.values(), ids=FORGED_LAKES.keys())
def test_forged_catalog_of_a_lake_is_not_looked_at(
    bench: Bench, lab: Lab, statements: tuple[str, ...]
):
    bench.run("attacker", "CREATE SCHEMA closed", *statements)
    bench.run(
        "attacker",
        "GRANT USAGE ON SCHEMA closed TO PUBLIC",
        "GRANT SELECT ON closed.ducklake_snapshot TO PUBLIC",
    )
    bench.run("admin", "ALTER SEQUENCE trap.hits RESTART", "SELECT setval('trap.hits', 1, false)")
    lab.run(
        "UPDATE pgtrickle.pgt_snapshots SET snapshot_relid = NULL",
        "INSERT INTO pgtrickle.pgt_lake_snapshots"
        " SELECT snapshot_id, 'closed', '/tmp/none/', NULL, 'main', 'saved', 1, 'u', 7,"
        """ '[["region", "text COLLATE \\"default\\""], ["total", "bigint"]]', 0"""
        "   FROM pgtrickle.pgt_snapshots",
    )

    [listed] = lab.trickle.snapshots.list_snapshots()

    assert (listed.lake_snapshot, listed.restorable) == (7, True)
    assert code_of_restore(lab) in {"ST701", "ST219"}
    assert nothing_ran(bench)
