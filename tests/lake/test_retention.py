"""Old deliveries and their provenance go; the totals of a sink and its last delivery stay."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgtrickle.service.scheduling.prune import prune_record_of_deliveries
from tests.lake.shore import SUMS, Shore

TOTALS = (
    "SELECT stream_table, status, snapshot_id, last_delivered_at, deliveries, rows_written,"
    " rows_deleted, bytes_written FROM pgtrickle.ducklake_sink_status()"
)
AGE = (
    "UPDATE pgtrickle.pgt_ducklake_sink_delivery"
    " SET finished_at = finished_at - interval '91 days'",
    "UPDATE pgtrickle.pgt_ducklake_provenance SET written_at = written_at - interval '91 days'",
)


@pytest.fixture
def delivered(shore: Shore) -> Shore:
    shore.create("sums", SUMS)
    for number in range(3):
        shore.window("sums", f"UPDATE t SET v = v + {number + 1} WHERE k = 1")
    return shore


def rows(shore: Shore, table: str) -> int:
    [(number,)] = shore.tell(f"SELECT count(*) FROM pgtrickle.{table}")
    return int(number)


def test_totals_and_the_last_delivery_stay(delivered: Shore) -> None:
    delivered.run(*AGE)
    before = delivered.tell(TOTALS)
    assert rows(delivered, "pgt_ducklake_sink_delivery") == 4

    assert prune_record_of_deliveries(delivered.trickle._runtime) == 3 + 4

    assert delivered.tell(TOTALS) == before
    assert rows(delivered, "pgt_ducklake_sink_delivery") == 1
    assert rows(delivered, "pgt_ducklake_provenance") == 0
    delivered.window("sums", "UPDATE t SET v = 0 WHERE k = 1")
    [after] = delivered.tell(TOTALS)
    assert after[4] == 5
    assert prune_record_of_deliveries(delivered.trickle._runtime) == 1  # the aged one


def test_what_is_young_or_open_stays(delivered: Shore) -> None:
    assert prune_record_of_deliveries(delivered.trickle._runtime) == 0
    delivered.run(
        *AGE,
        "UPDATE pgtrickle.pgt_ducklake_sink_delivery SET status = 'FAILED_PERMANENT'"
        " WHERE delivery_id = (SELECT min(delivery_id) FROM pgtrickle.pgt_ducklake_sink_delivery)",
        "DELETE FROM pgtrickle.pgt_ducklake_provenance",
    )

    assert prune_record_of_deliveries(delivered.trickle._runtime) == 2

    left = delivered.tell("SELECT status FROM pgtrickle.pgt_ducklake_sink_delivery ORDER BY 1")
    assert left == [("DELIVERED",), ("FAILED_PERMANENT",)]


def test_zero_keeps_everything(delivered: Shore, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = delivered.trickle._runtime
    monkeypatch.setattr(runtime, "settings", replace(runtime.settings, delivery_retention_days=0))
    delivered.run(*AGE)

    assert prune_record_of_deliveries(runtime) == 0
