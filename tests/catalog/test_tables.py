"""Each catalog table gives back what was put in, and keeps its rules."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from pgtrickle.catalog import dependencies, stream_tables
from pgtrickle.catalog.capture import change_tracking
from pgtrickle.catalog.dependencies import Dependency, SourceType
from pgtrickle.catalog.refreshes import history as refresh_history
from pgtrickle.catalog.refreshes.history import RefreshRecord, RefreshStatus
from pgtrickle.errors import (
    InternalError,
    LeaseLostError,
    NameTakenError,
    StreamTableNotFoundError,
)
from pgtrickle.model.frontier import Frontier, PgSnapshot
from pgtrickle.model.report import CostRecord, SourceRead
from pgtrickle.model.stream_table import (
    Action,
    InitiatedBy,
    RefreshMode,
    Status,
    StreamTable,
)
from pgtrickle.model.text.names import QualifiedName
from tests.catalog.databases import Database, value

FIRST = Frontier("7", 5, PgSnapshot.parse("10:20:11,15"))
SECOND = Frontier("7", 5, PgSnapshot.parse("20:30:"))
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ORDERS = Dependency(100, QualifiedName("app", "Orders"), SourceType.TABLE, ("id", "qty"), "f1")


def test_stream_table_is_found_by_name_and_relid(catalog: Database, stream_table: StreamTable):
    assert stream_tables.get_stream_table(catalog, stream_table.name) == stream_table
    assert stream_tables.find_stream_table_by_relid(catalog, 4711) == stream_table
    assert stream_tables.list_stream_tables(catalog) == [stream_table]
    assert stream_table.status is Status.INITIALIZING
    assert stream_table.owner == value(catalog, "SELECT current_user::text")
    assert stream_tables.find_plan(catalog, stream_table.id) == {"stages": []}
    assert stream_tables.get_query_search_path(catalog, stream_table.id) == '"$user", public'


def test_missing_stream_table_is_reported_with_a_hint(catalog: Database):
    name = QualifiedName("public", "nowhere")

    with pytest.raises(StreamTableNotFoundError) as caught:
        stream_tables.get_stream_table(catalog, name)

    assert caught.value.hint == "List them with: pgtrickle list."
    assert stream_tables.find_stream_table(catalog, name) is None


def test_name_of_a_stream_table_is_unique(catalog: Database, stream_table: StreamTable):
    with pytest.raises(NameTakenError):
        stream_tables.insert_stream_table(
            catalog,
            relid=1,
            name=stream_table.name,
            defining_query="",
            original_query="",
            query_search_path="",
            schedule="1m",
            refresh_mode=RefreshMode.FULL,
            effective_refresh_mode=RefreshMode.FULL,
        )


def test_updates_change_what_they_name(catalog: Database, stream_table: StreamTable):
    identity = stream_table.id

    stream_tables.update_schedule(catalog, identity, "5m")
    stream_tables.update_refresh_mode(
        catalog,
        identity,
        refresh_mode=RefreshMode.DIFFERENTIAL,
        effective_refresh_mode=RefreshMode.DIFFERENTIAL,
        downgrade_reason=None,
    )
    stream_tables.update_needs_reinit(catalog, identity, needs_reinit=True)
    stream_tables.update_error(catalog, identity, "it broke", status=Status.ERROR)
    stream_tables.update_plan(catalog, identity, {"stages": [1]})

    found = stream_tables.get_stream_table(catalog, stream_table.name)
    assert found.last_error_at is not None
    assert found == replace(
        stream_table,
        schedule="5m",
        refresh_mode=RefreshMode.DIFFERENTIAL,
        effective_refresh_mode=RefreshMode.DIFFERENTIAL,
        downgrade_reason=None,
        needs_reinit=True,
        consecutive_errors=1,
        last_error_message="it broke",
        last_error_at=found.last_error_at,
        status=Status.ERROR,
    )
    assert stream_tables.find_plan(catalog, identity) == {"stages": [1]}


def test_status_active_forgives_errors(catalog: Database, stream_table: StreamTable):
    stream_tables.update_error(catalog, stream_table.id, "it broke", status=Status.SUSPENDED)

    stream_tables.update_status(catalog, stream_table.id, Status.ACTIVE)

    found = stream_tables.get_stream_table(catalog, stream_table.name)
    assert (found.status, found.consecutive_errors) == (Status.ACTIVE, 0)


def test_frontier_advances_from_the_one_it_read(catalog: Database, stream_table: StreamTable):
    stream_tables.update_error(catalog, stream_table.id, "it broke")
    stream_tables.update_frontier(
        catalog, stream_table.id, FIRST, previous=None, data_timestamp=NOW
    )
    stream_tables.update_frontier(
        catalog, stream_table.id, SECOND, previous=FIRST, data_timestamp=NOW
    )

    found = stream_tables.get_stream_table(catalog, stream_table.name)
    assert (found.frontier, found.data_timestamp) == (SECOND, NOW)
    assert (found.status, found.populated, found.consecutive_errors) == (Status.ACTIVE, True, 0)


@pytest.mark.parametrize("previous", [None, SECOND])
def test_frontier_that_moved_is_not_overwritten(
    catalog: Database, stream_table: StreamTable, previous: Frontier | None
):
    stream_tables.update_frontier(
        catalog, stream_table.id, FIRST, previous=None, data_timestamp=NOW
    )

    with pytest.raises(LeaseLostError):
        stream_tables.update_frontier(
            catalog, stream_table.id, SECOND, previous=previous, data_timestamp=NOW
        )


def test_suspended_stays_suspended_when_refreshed_by_hand(
    catalog: Database, stream_table: StreamTable
):
    stream_tables.update_status(catalog, stream_table.id, Status.SUSPENDED)

    stream_tables.update_frontier(
        catalog, stream_table.id, FIRST, previous=None, data_timestamp=NOW
    )

    found = stream_tables.get_stream_table(catalog, stream_table.name)
    assert found.status is Status.SUSPENDED


def test_update_of_a_dropped_stream_table_is_reported(catalog: Database):
    with pytest.raises(StreamTableNotFoundError):
        stream_tables.update_schedule(catalog, 999, "1m")


def test_deleting_a_stream_table_takes_its_rows_along(catalog: Database, stream_table: StreamTable):
    dependencies.insert_dependencies(catalog, stream_table.id, [ORDERS])
    record = RefreshRecord(InitiatedBy.MANUAL, RefreshStatus.COMPLETED, Action.NO_DATA)
    refresh_history.insert_refresh(catalog, stream_table.id, record)

    stream_tables.delete_stream_table(catalog, stream_table.id)

    assert stream_tables.list_stream_tables(catalog) == []
    assert refresh_history.list_refreshes(catalog) == []
    assert dependencies.list_dependents(catalog, 100) == []


def test_dependencies_go_both_ways(catalog: Database, stream_table: StreamTable):
    dependencies.insert_dependencies(catalog, stream_table.id, [ORDERS])

    assert dependencies.list_dependencies(catalog, stream_table.id) == [ORDERS]
    assert dependencies.list_dependents(catalog, 100) == [stream_table]
    assert dependencies.list_dependents(catalog, 101) == []

    dependencies.delete_dependencies(catalog, stream_table.id)
    assert dependencies.list_dependencies(catalog, stream_table.id) == []


def test_consumer_without_frontier_blocks_trimming(catalog: Database, stream_table: StreamTable):
    dependencies.insert_dependencies(catalog, stream_table.id, [ORDERS])
    before = dependencies.list_consumer_frontiers(catalog, 100)
    stream_tables.update_frontier(
        catalog, stream_table.id, FIRST, previous=None, data_timestamp=NOW
    )

    assert before == []
    assert dependencies.list_consumer_frontiers(catalog, 100) == [FIRST]


def test_change_tracking_is_shared_and_replaced(catalog: Database, stream_table: StreamTable):
    for columns in (["id"], ["id", "qty"]):
        change_tracking.insert_change_tracking(
            catalog,
            source_relid=100,
            source=ORDERS.source,
            buffer_name="changes_100",
            captured_columns=columns,
        )

    found = change_tracking.find_change_tracking(catalog, 100)
    assert found is not None
    assert found.captured_columns == ("id", "qty")
    assert change_tracking.list_change_tracking(catalog) == [found]
    assert change_tracking.list_unused_change_tracking(catalog) == [found]

    dependencies.insert_dependencies(catalog, stream_table.id, [ORDERS])
    assert change_tracking.list_unused_change_tracking(catalog) == []

    change_tracking.delete_change_tracking(catalog, 100)
    assert change_tracking.find_change_tracking(catalog, 100) is None


def test_refresh_is_recorded(catalog: Database, stream_table: StreamTable):
    read = SourceRead("app.orders", "keyed", "changes", 10, 400)
    record = RefreshRecord(
        InitiatedBy.SCHEDULER,
        RefreshStatus.COMPLETED,
        Action.DIFFERENTIAL,
        "12 changes",
        rows_inserted=3,
        rows_deleted=2,
        changed_rows=12,
        reads=[read],
        timings_ms={"read": 1.5},
        costs=CostRecord(7.0, 7.0, 30.0, 6.5),
    )
    refresh = refresh_history.insert_refresh(catalog, stream_table.id, record)

    [found] = refresh_history.list_refreshes(catalog, stream_table.name)
    assert (found.id, found.stream_table) == (refresh, stream_table.name)
    assert (found.action, found.status) == (Action.DIFFERENTIAL, RefreshStatus.COMPLETED)
    assert (found.rows_inserted, found.rows_deleted, found.delta_row_count) == (3, 2, 5)
    assert found.changed_rows == 12
    assert (found.reads, found.timings_ms, found.predicted_ms) == ((read,), {"read": 1.5}, 7.0)
    assert (found.predicted_differential_ms, found.predicted_full_ms) == (7.0, 30.0)
    assert (found.actual_ms, found.rows_read, found.bytes_read) == (6.5, 10, 400)
    assert found.end_time is not None
    assert found.end_time >= found.start_time


def test_history_lists_the_newest_first(catalog: Database, stream_table: StreamTable):
    start = value(catalog, "SELECT now()")
    ids = [
        refresh_history.insert_refresh(
            catalog,
            stream_table.id,
            RefreshRecord(
                InitiatedBy.MANUAL,
                RefreshStatus.COMPLETED,
                Action.NO_DATA,
                start_time=start - timedelta(minutes=age),
            ),
        )
        for age in (3, 2, 1)
    ]

    listed = refresh_history.list_refreshes(catalog, stream_table.name, limit=2)

    assert [found.id for found in listed] == [ids[2], ids[1]]
    assert refresh_history.list_refreshes(catalog, QualifiedName("a", "b")) == []


def test_start_in_the_future_of_the_server_is_cut(catalog: Database, stream_table: StreamTable):
    record = RefreshRecord(
        InitiatedBy.MANUAL,
        RefreshStatus.FAILED,
        start_time=datetime.now(UTC) + timedelta(hours=1),
        error=InternalError("lost"),
    )
    refresh_history.insert_refresh(catalog, stream_table.id, record)

    [found] = refresh_history.list_refreshes(catalog)
    assert found.end_time is not None
    assert found.end_time >= found.start_time


@pytest.mark.parametrize(
    "column_and_value", ["status = 'BROKEN'", "refresh_mode = 'MAYBE'", "is_populated = true"]
)
def test_catalog_refuses_values_outside_its_rules(
    catalog: Database, stream_table: StreamTable, column_and_value: str
):
    with pytest.raises(psycopg.errors.CheckViolation):
        catalog.execute(f"UPDATE pgtrickle.pgt_stream_tables SET {column_and_value}".encode())
