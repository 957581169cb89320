"""Snapshots: what is saved comes back, with its state, and the next refresh continues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import psycopg
import pytest

from pgtrickle.errors import TrickleError
from pgtrickle.model.table_snapshot import ListedSnapshot
from pgtrickle.service.capturing.trim import trim_sources
from pgtrickle.service.lifecycle.snapshots import restore as restoring
from pgtrickle.service.lifecycle.snapshots import take as taking
from pgtrickle.service.lifecycle.snapshots.drop import sweep_lost_snapshots
from pgtrickle.storage import snapshot_copies
from tests.labs.lab import Lab

T = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, v int)",
    "INSERT INTO t SELECT i, i % 3, i FROM generate_series(1, 12) AS i",
)
SUMS = "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS most FROM t GROUP BY k"
BEST = "SELECT max(total) AS total, count(DISTINCT n) AS sizes FROM sums"
TRIMMED = "changes of public.t are missing: after the restored snapshot: they were trimmed"


@pytest.fixture(params=["lab", "postgres_lab"])
def shop(request: pytest.FixtureRequest) -> Lab:
    """Create a stream table with state, computed by either engine."""
    made: Lab = request.getfixturevalue(request.param)
    made.run(*T)
    made.create("sums", SUMS)
    return made


@pytest.fixture
def keeping(shop: Lab) -> Iterator[Lab]:
    """Let snapshots hold the change buffers back."""
    runtime = shop.trickle._runtime
    before = runtime.settings
    runtime.settings = replace(before, snapshot_keeps_changes=True, compact_threshold=1)
    yield shop
    runtime.settings = before


def take(lab: Lab, name: str = "sums", target: str | None = None) -> str:
    return str(lab.trickle.snapshots.snapshot_stream_table(name, target))


def restore(lab: Lab, source: str, name: str = "sums") -> None:
    report = lab.trickle.snapshots.restore_from_snapshot(name, source)
    assert report.action.value == "REINITIALIZE"
    assert report.reason.startswith(f"restored from snapshot {source} of ")


def only(lab: Lab) -> ListedSnapshot:
    [found] = lab.trickle.snapshots.list_snapshots()
    return found


def code_of_restore(lab: Lab, source: str, name: str = "sums") -> str:
    with pytest.raises(TrickleError) as caught:
        lab.trickle.snapshots.restore_from_snapshot(name, source)
    assert caught.value.hint
    return caught.value.code


def all_of(lab: Lab) -> list[object]:
    """Return what a restore changes: rows, state, frontier, history."""
    tables = lab.rows(
        "SELECT relname FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = 'pgtrickle_state'::regnamespace"
    )
    return [
        lab.rows("TABLE sums"),
        *(lab.rows(f"TABLE pgtrickle_state.{name}") for (name,) in tables),
        lab.rows("SELECT frontier, needs_reinit, plan FROM pgtrickle.pgt_stream_tables"),
        lab.rows("SELECT count(*) FROM pgtrickle.pgt_refresh_history"),
        lab.rows("SELECT * FROM pgtrickle.pgt_capture_gaps"),
        lab.rows("SELECT snapshot_id, snapshot_table FROM pgtrickle.pgt_snapshots"),
    ]


def test_rows_state_and_frontier_come_back(shop: Lab):
    before = all_of(shop)[0]
    frontier = shop.value("SELECT frontier::text FROM pgtrickle.pgt_stream_tables")
    taken = take(shop)
    shop.run(
        "DELETE FROM t WHERE k = 1", "UPDATE t SET v = v * 2", "INSERT INTO t VALUES (50, 9, 9)"
    )

    restore(shop, taken)

    assert shop.rows("TABLE sums") == before
    assert shop.value("SELECT frontier::text FROM pgtrickle.pgt_stream_tables") == frontier
    shop.refresh("sums")
    shop.window("UPDATE t SET k = k + 1 WHERE id < 6")
    shop.window(action="NO_DATA")


def test_refresh_after_a_restore_reinitializes_if_changes_were_trimmed(shop: Lab):
    taken = take(shop)
    before = shop.rows("TABLE sums")
    assert only(shop).gap is None
    shop.window("DELETE FROM t WHERE k = 1")
    assert only(shop).gap == "they were trimmed"

    restore(shop, taken)

    assert shop.rows("TABLE sums") == before
    assert TRIMMED in shop.refresh("sums", "REINITIALIZE").reason
    shop.window("UPDATE t SET k = k + 1 WHERE id < 6")


def test_refresh_after_a_restore_continues_where_snapshots_keep_changes(keeping: Lab):
    shop, contents = keeping, []
    names = []
    for statement in ("DELETE FROM t WHERE id = 4", "UPDATE t SET v = -v", "DELETE FROM t"):
        contents.append(shop.rows("TABLE sums"))
        names.append(take(shop))
        shop.window(statement)
    shop.window("INSERT INTO t VALUES (4, 1, 4), (5, 1, 7)")

    for number in (1, 0, 2, 2):
        restore(shop, names[number])
        assert shop.rows("TABLE sums") == contents[number]
        shop.refresh("sums")
        shop.window("UPDATE t SET v = v + 1")

    held = shop.value("SELECT count(*) FROM pgtrickle_changes.changes_" + relid(shop))
    assert held > 0
    for name in names:
        shop.trickle.snapshots.drop_snapshot(name)
    shop.window("UPDATE t SET v = v + 1")
    assert shop.value("SELECT count(*) FROM pgtrickle_changes.changes_" + relid(shop)) == 0


def relid(lab: Lab) -> str:
    return str(lab.value("SELECT 't'::regclass::oid::int8"))


def test_compaction_keeps_apart_what_a_snapshot_separates(keeping: Lab):
    shop = keeping
    shop.create("slow", "SELECT id FROM t")
    shop.run("INSERT INTO t VALUES (30, 1, 1)")
    shop.refresh("sums")
    taken, before = take(shop), shop.rows("TABLE sums")
    shop.run("DELETE FROM t WHERE id = 30")
    shop.refresh("sums")
    runtime = shop.trickle._runtime
    runtime.settings = replace(runtime.settings, snapshot_keeps_changes=False)
    trim_sources(runtime, [int(relid(shop))])
    assert only(shop).gap is None

    restore(shop, taken)

    assert shop.rows("TABLE sums") == before
    shop.refresh("sums")
    shop.refresh("slow", "DIFFERENTIAL")


def test_change_of_a_transaction_that_the_frontier_did_not_see_is_missed(
    shop: Lab, database_writer: psycopg.Connection
):
    """It is older than the end of that frontier, and a later frontier may end there, too."""
    database_writer.execute("INSERT INTO t VALUES (90, 1, 90)")
    shop.window("INSERT INTO t VALUES (91, 1, 91)")
    taken = take(shop)
    database_writer.commit()
    shop.window()
    assert only(shop).gap == "they were trimmed"

    restore(shop, taken)

    shop.refresh("sums", "REINITIALIZE")


@pytest.fixture
def database_writer(shop: Lab) -> Iterator[psycopg.Connection]:
    with psycopg.connect(shop.trickle.dsn) as connection:
        yield connection


def test_children_receive_the_difference(shop: Lab):
    shop.create("best", BEST)
    taken = take(shop)
    shop.window("UPDATE t SET v = v * 10 WHERE k = 2")

    restore(shop, taken)

    shop.refresh("best")
    shop.refresh("sums", "REINITIALIZE")
    shop.refresh("best")
    shop.window("DELETE FROM t WHERE k = 2")


def test_stream_table_that_reads_another_continues(keeping: Lab):
    keeping.create("best", BEST)
    taken = take(keeping, "best")
    keeping.window("UPDATE t SET v = v * 10 WHERE k = 2")

    restore(keeping, taken, "best")

    keeping.refresh("best")
    keeping.window("DELETE FROM t WHERE k = 2")


def test_reinitialization_after_the_snapshot_is_not_passed_over(keeping: Lab):
    keeping.run(
        "CREATE FUNCTION f(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v + 1'",
    )
    keeping.create("shifted", "SELECT id, f(v) AS v FROM t")
    taken = take(keeping, "shifted")
    keeping.run(
        "CREATE OR REPLACE FUNCTION f(v int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT v + 2'"
    )
    keeping.refresh("shifted", "REINITIALIZE")

    restore(keeping, taken, "shifted")

    reason = keeping.refresh("shifted", "REINITIALIZE").reason
    assert "after the restored snapshot: it was reinitialized" in reason


def test_gap_of_capture_after_the_snapshot_is_not_forgotten(keeping: Lab):
    taken = take(keeping)
    keeping.trickle.capture.pause_cdc("t")
    keeping.run("DELETE FROM t WHERE k = 2")
    keeping.trickle.capture.resume_cdc("t")
    keeping.refresh("sums", "REINITIALIZE")
    keeping.window("INSERT INTO t VALUES (40, 4, 4)")

    restore(keeping, taken)

    keeping.refresh("sums", "REINITIALIZE")
    keeping.window("INSERT INTO t VALUES (41, 4, 4)")


def test_truncated_source_after_the_snapshot(keeping: Lab):
    taken = take(keeping)
    keeping.window("TRUNCATE t", action="FULL")
    keeping.window("INSERT INTO t VALUES (1, 1, 1)")

    restore(keeping, taken)

    assert keeping.trickle.refresh_stream_table("sums").action.value in {"FULL", "REINITIALIZE"}
    keeping.check("sums")
    keeping.window("INSERT INTO t VALUES (2, 1, 1)")


def test_full_buffers_do_without_snapshots(keeping: Lab):
    take(keeping)
    runtime = keeping.trickle._runtime
    runtime.settings = replace(
        runtime.settings, max_buffer_rows=5, backpressure_consecutive_limit=1, compact_threshold=0
    )
    keeping.window("INSERT INTO t SELECT i, 7, i FROM generate_series(100, 900) AS i")
    gap = only(keeping).gap
    assert gap is not None
    assert "had more than 5 rows" in gap
    keeping.window("DELETE FROM t WHERE k = 7")
    assert keeping.value("SELECT count(*) FROM pgtrickle_changes.changes_" + relid(keeping)) == 0


def test_two_snapshots_of_one_moment_have_their_own_names(shop: Lab):
    names = {take(shop) for _ in range(5)}

    assert len(names) == 5
    assert {str(one.table) for one in shop.trickle.snapshots.list_snapshots("sums")} == names


ODD = {
    "quoted": 'o"dd; DROP TABLE t; --',
    "percent": "per%s cent {0}",
    "long": "é" * 31,
    "capitals": "Daily Sales",
}


@pytest.mark.parametrize("name", ODD.values(), ids=ODD.keys())
def test_odd_names_of_tables_columns_and_schemas(lab: Lab, name: str):
    quoted = '"' + name.replace('"', '""') + '"'
    lab.run(*T, f"CREATE SCHEMA {quoted}")
    table = f"{quoted}.{quoted}"
    lab.create(table, f"SELECT k AS {quoted}, count(*) AS n FROM t GROUP BY k")
    taken = take(lab, table)
    chosen = take(lab, table, '"other"')
    lab.window("DELETE FROM t WHERE k = 1")

    for one in (taken, chosen):
        restore(lab, one, table)
        lab.refresh(table, "REINITIALIZE")
        assert str(lab.trickle.snapshots.drop_snapshot(one)) == one
    assert lab.trickle.snapshots.list_snapshots() == []


def test_columns_that_somebody_added_are_left_alone(shop: Lab):
    shop.run(
        "ALTER TABLE sums ADD COLUMN gone int, ADD COLUMN note text DEFAULT 'new',"
        ' ADD COLUMN "Twice ""n""" bigint GENERATED ALWAYS AS (n * 2) STORED',
        "ALTER TABLE sums DROP COLUMN gone",
    )
    shop.queries["sums"] = f"SELECT *, 'new', 2 * n FROM ({SUMS}) AS s"
    taken = take(shop)
    shop.run("DELETE FROM t WHERE k = 1")

    restore(shop, taken)

    shop.refresh("sums")


def test_existing_name_is_refused(shop: Lab):
    for target in ("t", "sums", take(shop)):
        with pytest.raises(TrickleError, match="already exists") as caught:
            take(shop, target=target)
        assert caught.value.code == "ST217"
    for target, code in (
        ("nowhere.x", "ST208"),
        ("pgtrickle_state.x", "ST208"),
        ("pg_temp.x", "ST208"),
    ):
        with pytest.raises(TrickleError) as caught:
            take(shop, target=target)
        assert caught.value.code == code


def test_unknown_snapshot_is_refused(shop: Lab):
    shop.create("copy", "SELECT id FROM t")
    of_another = take(shop, "copy")

    assert code_of_restore(shop, "t") == "ST218"
    assert code_of_restore(shop, "nothing") == "ST218"
    assert code_of_restore(shop, of_another) == "ST218"
    with pytest.raises(TrickleError) as caught:
        shop.trickle.snapshots.drop_snapshot("t")
    assert caught.value.code == "ST218"


MISFITS = {
    "another query": (
        "",
        "SELECT k, count(*) AS n, sum(v) AS total, max(v) AS most FROM t WHERE v > 3 GROUP BY k",
    ),
    "no version": ("UPDATE pgtrickle.pgt_snapshots SET snapshot_version = NULL", None),
    "later version": ("UPDATE pgtrickle.pgt_snapshots SET snapshot_version = 99", None),
}


@pytest.mark.parametrize(("statement", "query"), MISFITS.values(), ids=MISFITS.keys())
def test_snapshot_that_does_not_fit_is_refused(shop: Lab, statement: str, query: str | None):
    taken = take(shop)
    if query is not None:
        shop.trickle.alter_stream_table("sums", query=query)
    if statement:
        shop.run(statement)
    before = all_of(shop)

    assert code_of_restore(shop, taken) == "ST219"
    assert all_of(shop) == before


@pytest.mark.parametrize(
    "other", ["SELECT k AS half, k FROM t WHERE k > 1", "SELECT n AS k FROM (VALUES (1)) AS c (n)"]
)
@pytest.mark.parametrize("keeps", ["trimmed", "kept"])
def test_snapshot_fits_again_when_its_query_returns(shop: Lab, keeps: str, other: str):
    """Also where fewer columns were captured meanwhile, or nothing at all."""
    runtime = shop.trickle._runtime
    with pytest.MonkeyPatch.context() as patch:
        settings = replace(runtime.settings, snapshot_keeps_changes=keeps == "kept")
        patch.setattr(runtime, "settings", settings)
        taken, before = take(shop), shop.rows("TABLE sums")
        shop.trickle.alter_stream_table("sums", query=other, allow_breaking=True)
        with pytest.raises(TrickleError, match="has another query by now"):
            restore(shop, taken)
        shop.run("UPDATE t SET v = v + 1")
        assert shop.trickle.refresh_stream_table("sums").action.value in {"DIFFERENTIAL", "NO_DATA"}

        shop.trickle.alter_stream_table("sums", query=SUMS, allow_breaking=True)
        restore(shop, taken)

        assert shop.rows("TABLE sums") == before
        shop.trickle.refresh_stream_table("sums")
        shop.check("sums")


def test_state_of_another_form_is_refused(shop: Lab):
    taken = take(shop)
    [copy] = shop.rows(
        "SELECT relname FROM pg_class WHERE relname LIKE 'snapshot%group_1' AND relkind = 'r'"
    )
    shop.run(f"ALTER TABLE pgtrickle_state.{copy[0]} ADD COLUMN more int")

    assert code_of_restore(shop, taken) == "ST219"


def test_renames_are_followed(keeping: Lab):
    take(keeping, target="saved")
    before = keeping.rows("TABLE sums")
    keeping.run("ALTER TABLE t RENAME TO sales", "ALTER TABLE saved RENAME TO kept")
    keeping.trickle.rename_stream_table("sums", "totals")
    keeping.queries = {"totals": SUMS.replace("FROM t ", "FROM sales ")}
    keeping.window("DELETE FROM sales WHERE k = 1")

    restore(keeping, "public.kept", "totals")

    assert keeping.rows("TABLE totals") == before
    keeping.refresh("totals")


def test_immediate_stream_table_is_saved_and_not_restored(postgres_lab: Lab):
    lab = postgres_lab
    lab.run(*T)
    lab.create("sums", SUMS, mode="IMMEDIATE")
    taken, before = take(lab), lab.rows("TABLE sums")
    lab.run("DELETE FROM t WHERE k = 1")

    assert code_of_restore(lab, taken) == "ST220"
    lab.check("sums")
    lab.trickle.alter_stream_table("sums", refresh_mode="DIFFERENTIAL")
    restore(lab, taken)
    assert lab.rows("TABLE sums") == before
    lab.refresh("sums", "REINITIALIZE")


def test_members_of_groups_are_not_restored_alone(shop: Lab):
    shop.create("left_side", "SELECT k, n FROM sums")
    shop.create("right_side", "SELECT k, total FROM sums")
    shop.create("joined", "SELECT k, n, total FROM left_side JOIN right_side USING (k)")

    for name in ("left_side", "right_side", "joined"):
        assert code_of_restore(shop, take(shop, name), name) == "ST220"
    shop.trickle.alter_stream_table("joined", diamond_consistency="none")
    taken = take(shop, "left_side")
    restore(shop, taken, "left_side")

    shop.trickle.scheduler.create_refresh_group("pair", ["left_side", "right_side"])
    assert code_of_restore(shop, taken, "left_side") == "ST220"
    shop.trickle.scheduler.drop_refresh_group("pair")


def test_hand_dropped_table_leaves_nothing(shop: Lab):
    taken = take(shop)
    shop.run(f"DROP TABLE {taken}")

    assert shop.trickle.snapshots.list_snapshots() == []
    assert code_of_restore(shop, taken) == "ST218"
    sweep_lost_snapshots(shop.trickle._runtime)
    assert shop.rows("TABLE pgtrickle.pgt_snapshots") == []
    assert shop.rows("SELECT relname FROM pg_class WHERE relname LIKE 'snapshot%'") == []
    take(shop, target=taken)


def test_dropped_stream_table_leaves_the_rows_of_its_snapshots(shop: Lab):
    taken, before = take(shop), shop.rows("TABLE sums")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="is a snapshot"):
        shop.run(f"DELETE FROM {taken}")

    shop.trickle.drop_stream_table("sums")

    assert shop.rows(f"TABLE {taken}") == before
    shop.run(f"DELETE FROM {taken}", f"DROP TABLE {taken}")
    assert shop.leftovers() == []


def test_failure_in_the_middle_changes_nothing(shop: Lab, monkeypatch: pytest.MonkeyPatch):
    taken = take(shop)
    shop.window("UPDATE t SET v = v + 100")
    before = all_of(shop)
    shop.run("ALTER TABLE sums ADD CONSTRAINT late CHECK (total > 400) NOT VALID")
    code_of_restore(shop, taken)
    assert all_of(shop) == before

    shop.run("ALTER TABLE sums DROP CONSTRAINT late")

    def fail(*_: object) -> None:
        raise psycopg.errors.DiskFull("no space left on device")

    for step in ("replace_contents", "restore_state", "commit", "adopt_snapshot_gaps"):
        with monkeypatch.context() as patch:
            patch.setattr(restoring, step, fail)
            with pytest.raises((TrickleError, psycopg.Error)):
                shop.trickle.snapshots.restore_from_snapshot("sums", taken)
        assert all_of(shop) == before, step
    restore(shop, taken)


def test_neither_runs_while_another_process_refreshes(shop: Lab):
    taken, before = take(shop), all_of(shop)
    shop.run(
        "INSERT INTO pgtrickle.pgt_leases (pgt_id, owner, acquired_at, expires_at)"
        " SELECT pgt_id, 'somebody', clock_timestamp(), clock_timestamp() + interval '1 hour'"
        " FROM pgtrickle.pgt_stream_tables"
    )

    assert code_of_restore(shop, taken) == "ST209"
    with pytest.raises(TrickleError) as caught:
        take(shop)
    assert caught.value.code == "ST209"
    shop.run("DELETE FROM pgtrickle.pgt_leases")
    assert all_of(shop) == before


STEPS = {
    "snapshot": (taking, "copy_rows"),
    "restore": (restoring, "restore_state"),
}


@pytest.mark.parametrize(("module", "step"), STEPS.values(), ids=STEPS.keys())
def test_refresh_waits_for_either(
    shop: Lab, monkeypatch: pytest.MonkeyPatch, module: ModuleType, step: str
):
    taken, codes, act = take(shop), [], getattr(module, step)
    shop.run("UPDATE t SET v = v + 1")

    def interrupted(*arguments: object) -> object:
        with pytest.raises(TrickleError) as caught:
            shop.trickle.refresh_stream_table("sums")
        codes.append(caught.value.code)
        return act(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, step, interrupted)
        take(shop) if module is taking else restore(shop, taken)

    assert codes == ["ST209"]
    shop.refresh("sums")


def test_restore_that_lost_its_lease_changes_nothing(shop: Lab, monkeypatch: pytest.MonkeyPatch):
    taken = take(shop)
    shop.window("UPDATE t SET v = v + 100")
    before, act = all_of(shop), snapshot_copies.restore_state

    def robbed(*arguments: Any) -> None:
        act(*arguments)
        shop.run("UPDATE pgtrickle.pgt_leases SET token = nextval('pgtrickle.pgt_lease_tokens')")

    with monkeypatch.context() as patch:
        patch.setattr(restoring, "restore_state", robbed)
        assert code_of_restore(shop, taken) == "ST210"
    shop.run("DELETE FROM pgtrickle.pgt_leases")
    assert all_of(shop) == before


def test_restore_is_in_the_history_and_told(shop: Lab):
    taken = take(shop)
    shop.window("DELETE FROM t WHERE k = 1")
    shop.run("LISTEN pg_trickle_refresh")

    restore(shop, taken)

    [told] = list(shop.connection.notifies(timeout=10, stop_after=1))
    assert '"action" : "REINITIALIZE"' in told.payload
    latest = shop.trickle.refresh_history("sums", 1)[0]
    assert latest.reason.startswith(f"restored from snapshot {taken} of ")
    assert latest.rows_inserted == 1
    assert latest.data_timestamp is not None
    assert latest.end_time is not None
    assert latest.data_timestamp < latest.start_time <= latest.end_time
    shop.run("UNLISTEN *")


def test_snapshot_of_what_has_to_start_anew_does_not_hide_it(shop: Lab):
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET needs_reinit = true")
    taken = take(shop)
    shop.refresh("sums", "REINITIALIZE")

    restore(shop, taken)

    shop.refresh("sums", "REINITIALIZE")


def test_suspended_and_damaged_stream_table_is_restored(keeping: Lab):
    taken = take(keeping)
    keeping.trickle.alter_stream_table("sums", status="SUSPENDED")
    keeping.run(
        "ALTER TABLE sums DISABLE TRIGGER USER",
        "DELETE FROM sums",
        "ALTER TABLE sums ENABLE TRIGGER USER",
    )

    restore(keeping, taken)

    assert keeping.trickle.get_stream_table("sums").status.value == "SUSPENDED"
    keeping.check("sums")
    keeping.trickle.resume_stream_table("sums")
    keeping.window("INSERT INTO t VALUES (60, 1, 1)")


def test_stream_table_without_contents_cannot_be_saved(shop: Lab):
    shop.trickle.create_stream_table("empty", "SELECT id FROM t", initialize=False)

    with pytest.raises(TrickleError) as caught:
        take(shop, "empty")
    assert caught.value.code == "ST211"


def test_second_restore_does_not_inherit_the_gap_of_the_first(shop: Lab):
    early = take(shop)
    shop.window("DELETE FROM t WHERE k = 1")
    late, before = take(shop), shop.rows("TABLE sums")
    shop.run("UPDATE t SET v = v + 1")
    restore(shop, early)
    between = take(shop)
    gaps = {one.snapshot_table: one.gap for one in shop.trickle.snapshots.list_snapshots()}
    assert [gaps[one.removeprefix("public.")] is None for one in (early, late, between)] == [
        False,
        True,
        False,
    ]

    restore(shop, late)

    assert shop.rows("TABLE sums") == before
    shop.refresh("sums")
    restore(shop, between)
    shop.refresh("sums", "REINITIALIZE")


@pytest.mark.parametrize("read", ["", "SELECT count(*) FROM rows"], ids=["alone", "read"])
def test_many_rows_come_back_into_an_empty_table(postgres_lab: Lab, read: str):
    """The index is built afterwards, unless a reader would have to be waited for."""
    lab = postgres_lab
    lab.run("CREATE TABLE many AS SELECT generate_series(1, 100000) AS id")
    lab.create("rows", "SELECT id FROM many")
    indexes = "SELECT indexrelid, indisvalid FROM pg_index WHERE indrelid = 'rows'::regclass"
    [before] = lab.rows(indexes)
    taken = take(lab, "rows")
    lab.run(
        "ALTER TABLE rows DISABLE TRIGGER USER",
        "DELETE FROM rows",
        "ALTER TABLE rows ENABLE TRIGGER USER",
    )

    with psycopg.connect(lab.trickle.dsn) as reader:
        if read:
            reader.execute(read.encode())
        restore(lab, taken, "rows")

    [after] = lab.rows(indexes)
    assert (after == before) is bool(read)
    assert after[1]
    assert lab.value("SELECT count(*) FROM rows") == 100_000
    lab.window("DELETE FROM many WHERE id = 7")
