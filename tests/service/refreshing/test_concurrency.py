"""Refreshes beside other refreshes, writes, drops and schema changes (scenarios.md: P44, P54)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from pgtrickle.catalog.refreshes.leases import Lease, check_lease, claim_lease
from pgtrickle.errors import (
    ConnectionLostError,
    LeaseHeldError,
    LeaseLostError,
    StreamTableNotFoundError,
    TrickleError,
)
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service import claim
from pgtrickle.service.claim import claimed
from pgtrickle.service.lifecycle import verify
from tests.labs.lab import Lab

TERMINATE = (
    "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


@pytest.fixture
def counted(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    lab.create("copy", "SELECT id, k FROM t")
    lab.create("counts", "SELECT k, count(*) AS n, max(id) AS last FROM t GROUP BY k")
    lab.run("INSERT INTO t VALUES (3, 3)")
    return lab


def test_p44_second_refresh_of_one_table_is_refused_while_the_first_runs(counted: Lab):
    errors: list[TrickleError] = []

    def refresh_again() -> None:
        with pytest.raises(LeaseHeldError) as caught:
            counted.trickle.refresh_stream_table("copy")
        errors.append(caught.value)

    counted.before_next_stage(refresh_again)
    report = counted.trickle.refresh_stream_table("copy")

    assert (report.action.value, report.rows_inserted) == ("DIFFERENTIAL", 1)
    assert [error.code for error in errors] == ["ST209"]
    counted.refresh("copy", action="NO_DATA")


def test_p44_refreshes_of_two_tables_and_writers_side_by_side(counted: Lab):
    def refresh_until_done(name: str) -> int:
        return sum(counted.trickle.refresh_stream_table(name).rows_inserted >= 0 for _ in range(10))

    with ThreadPoolExecutor(3) as threads:
        copy = threads.submit(refresh_until_done, "copy")
        for i in range(100, 160):
            counted.run(f"INSERT INTO t VALUES ({i}, {i % 4})", f"DELETE FROM t WHERE id = {i - 7}")
        counts = threads.submit(refresh_until_done, "counts")
        assert (copy.result(), counts.result()) == (10, 10)

    counted.run("INSERT INTO t VALUES (999, 9)")
    counted.window()


def test_p44_many_threads_refresh_one_table(counted: Lab):
    def refresh() -> str:
        try:
            return counted.trickle.refresh_stream_table("copy").action.value
        except LeaseHeldError as error:
            return error.code

    with ThreadPoolExecutor(4) as threads:
        outcomes = [one.result() for one in [threads.submit(refresh) for _ in range(8)]]

    assert outcomes.count("DIFFERENTIAL") == 1
    assert set(outcomes) <= {"DIFFERENTIAL", "NO_DATA", "ST209"}
    counted.check("copy")


def test_p44_lease_claimed_while_another_thread_leaves_is_not_a_ghost(counted: Lab):
    """A thread that gave its lease back is still leaving when the next one claims."""
    runtime = counted.trickle._runtime
    name = QualifiedName.parse("public.copy")
    identity = counted.value(
        "SELECT pgt_id FROM pgtrickle.pgt_stream_tables WHERE pgt_name = 'copy'"
    )
    leaving = runtime.claims.entered(identity)
    leaving.__enter__()

    with claimed(runtime, name, InitiatedBy.MANUAL) as (_, lease):
        leaving.__exit__(None, None, None)
        with pytest.raises(LeaseHeldError), claimed(runtime, name, InitiatedBy.MANUAL):
            pass
        with runtime.connection() as connection:
            check_lease(connection, identity, lease.token)


def test_p44_lease_of_a_thread_that_came_later_and_was_quicker_is_not_a_ghost(
    counted: Lab, monkeypatch: pytest.MonkeyPatch
):
    runtime = counted.trickle._runtime
    name = QualifiedName.parse("public.copy")
    with ExitStack() as quicker:
        leases: list[Lease] = []

        def be_overtaken(*arguments: Any) -> Lease:
            monkeypatch.undo()
            _, lease = quicker.enter_context(claimed(runtime, name, InitiatedBy.MANUAL))
            leases.append(lease)
            return claim_lease(*arguments)

        monkeypatch.setattr(claim, "claim_lease", be_overtaken)
        with pytest.raises(LeaseHeldError), claimed(runtime, name, InitiatedBy.MANUAL):
            pass
        [lease] = leases
        with runtime.connection() as connection:
            check_lease(connection, lease.stream_table_id, lease.token)


def test_p44_table_is_dropped_while_it_is_refreshed(counted: Lab):
    counted.before_next_stage(lambda: counted.trickle.drop_stream_table("counts"))
    with pytest.raises((StreamTableNotFoundError, LeaseLostError)):
        counted.trickle.refresh_stream_table("counts")

    counted.trickle.drop_stream_table("copy")
    assert counted.leftovers() == []


def test_p44_table_is_dropped_and_made_again_while_it_is_refreshed(counted: Lab):
    def replace() -> None:
        counted.trickle.drop_stream_table("counts")
        counted.create(
            "counts", "SELECT k, count(*) AS n, max(id) AS last FROM t WHERE k = 1 GROUP BY k"
        )

    counted.before_next_stage(replace)
    with pytest.raises((StreamTableNotFoundError, LeaseLostError)):
        counted.trickle.refresh_stream_table("counts")

    counted.window("INSERT INTO t VALUES (4, 1)")


def test_p44_mode_changes_while_the_table_is_refreshed(counted: Lab):
    counted.before_next_stage(
        lambda: counted.trickle.alter_stream_table("copy", refresh_mode="FULL", schedule="5m")
    )
    counted.refresh("copy")

    counted.run("INSERT INTO t VALUES (4, 1)")
    assert counted.refresh("copy", action="FULL").reason == "refresh_mode is FULL"


def test_p44_column_is_added_to_a_source_during_a_refresh(counted: Lab):
    counted.before_next_stage(lambda: counted.run("ALTER TABLE t ADD COLUMN note text DEFAULT 'x'"))
    counted.refresh("copy")

    counted.run("UPDATE t SET note = 'y', k = 7 WHERE id = 1")
    counted.window()


def test_p54_failure_to_store_the_frontier_undoes_everything(counted: Lab):
    before = counted.rows("TABLE counts")
    counted.run(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'disk on fire' USING ERRCODE = '53100'; END $$",
        "CREATE TRIGGER refuse BEFORE UPDATE OF frontier ON pgtrickle.pgt_stream_tables"
        " FOR EACH ROW WHEN (OLD.frontier IS DISTINCT FROM NEW.frontier) EXECUTE FUNCTION refuse()",
    )
    with pytest.raises(TrickleError) as caught:
        counted.trickle.refresh_stream_table("counts")

    assert caught.value.code == "ST404"
    assert counted.rows("TABLE counts") == before
    [failed] = counted.trickle.refresh_history("counts", limit=1)
    assert (failed.status.value, failed.error_code) == ("FAILED", "ST404")
    counted.window("DROP TRIGGER refuse ON pgtrickle.pgt_stream_tables")


def test_p54_lost_connection_loses_nothing_and_counts_nothing_twice(counted: Lab):
    counted.before_next_stage(lambda: counted.run(TERMINATE))
    with pytest.raises(ConnectionLostError):
        counted.trickle.refresh_stream_table("counts")

    counted.window()
    counted.window(action="NO_DATA")


def test_p54_connections_that_died_while_idle_are_not_lent(counted: Lab):
    counted.run(TERMINATE)

    counted.trickle.refresh_stream_table("copy")
    counted.trickle.refresh_stream_table("counts")
    counted.check("counts")


def test_p54_history_says_what_was_committed(counted: Lab):
    counted.window()

    history = counted.trickle.refresh_history("copy")
    assert [one.action.value for one in history if one.action] == [
        "NO_DATA",
        "DIFFERENTIAL",
        "FULL",
    ]


def test_p54_lease_that_a_crash_brought_back_is_no_rival(counted: Lab):
    runtime = counted.trickle._runtime
    number = counted.trickle.get_stream_table("copy").id
    claim_lease(counted.connection, number, runtime.owner, timedelta(hours=1))

    counted.refresh("copy")

    claim_lease(counted.connection, number, "another process", timedelta(hours=1))
    with pytest.raises(LeaseHeldError):
        counted.trickle.refresh_stream_table("copy")


def test_verify_compares_without_the_lease(counted: Lab, monkeypatch: pytest.MonkeyPatch):
    compare = verify._compare
    refreshed = []

    def compare_later(*arguments: Any) -> Any:
        counted.run("INSERT INTO t VALUES (4, 4)")
        refreshed.append(counted.trickle.refresh_stream_table("copy").rows_inserted)
        return compare(*arguments)

    monkeypatch.setattr(verify, "_compare", compare_later)

    assert counted.trickle.verify_stream_table("copy").ok
    assert refreshed == [1]
    monkeypatch.undo()
    counted.refresh("copy", action="NO_DATA")
