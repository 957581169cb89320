"""Changed rows have one meaning wherever they are told: an updated row of a source is one."""

from __future__ import annotations

import pytest

from pgtrickle.catalog.scheduling.fuses import find_usual_changes, set_fuse
from pgtrickle.errors import FuseBlownError
from pgtrickle.model.scheduling.fuse import Fuse, FuseMode
from tests.labs.lab import Lab

UPDATE = "UPDATE t SET v = v + 1 WHERE id <= 30"


@pytest.fixture
def copied(lab: Lab) -> Lab:
    lab.run(
        "CREATE TABLE t (id int PRIMARY KEY, v int)",
        "INSERT INTO t SELECT n, n FROM generate_series(1, 100) AS n",
        "ANALYZE t",
    )
    lab.create("copy", "SELECT id, v FROM t")
    return lab


def number(lab: Lab) -> int:
    return lab.trickle.get_stream_table("copy").id


def test_reason_and_history_count_an_update_once(copied: Lab):
    [report] = copied.window(UPDATE)

    assert report.reason == "changed rows in public.t: 30"
    latest = next(
        one for one in copied.trickle.refresh_history("copy") if one.action == report.action
    )
    assert latest.changed_rows == 30
    # Rows of the stream table are told apart: an updated one was deleted and inserted.
    assert (latest.rows_inserted, latest.rows_deleted, latest.delta_row_count) == (30, 30, 60)


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("INSERT INTO t SELECT n, n FROM generate_series(101, 107) AS n", 7),
        ("DELETE FROM t WHERE id <= 5", 5),
        (UPDATE, 30),
        ("UPDATE t SET id = id + 1000 WHERE id <= 9", 9),
    ],
)
def test_each_statement_changes_as_many_rows_as_postgres_says(
    copied: Lab, statement: str, changed: int
):
    assert copied.connection.execute(statement.encode()).rowcount == changed

    [report] = copied.window()

    assert report.reason == f"changed rows in public.t: {changed}"


def test_fuse_counts_an_update_once(copied: Lab):
    set_fuse(copied.connection, number(copied), Fuse(FuseMode.ON, ceiling=30))
    copied.run(UPDATE)
    copied.trickle.daemon.refresh_unit(["copy"])

    set_fuse(copied.connection, number(copied), Fuse(FuseMode.ON, ceiling=29))
    copied.run(UPDATE)
    with pytest.raises(FuseBlownError, match="30 changed rows, more than 29"):
        copied.trickle.daemon.refresh_unit(["copy"])


def test_fuse_compares_with_what_was_usual_in_the_same_unit(copied: Lab):
    for _ in range(5):
        copied.run(UPDATE)
        copied.trickle.daemon.refresh_unit(["copy"])

    assert find_usual_changes(copied.connection, number(copied)) == 30


def test_share_of_changed_rows_counts_an_update_once(copied: Lab):
    copied.trickle.alter_stream_table("copy", refresh_mode="AUTO", max_delta_fraction=0.29)
    copied.run(UPDATE)

    report = copied.refresh("copy", "FULL")

    assert report.reason == "30 changed rows exceed 29% of about 100 source rows"


def test_efficiency_tells_of_changed_rows(copied: Lab):
    copied.window(UPDATE)

    assert copied.value("SELECT avg_changed_rows FROM pgtrickle.refresh_efficiency()") == 30


def test_log_tells_rows_that_came_and_went_apart(copied: Lab, caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO", logger="pgtrickle"):
        copied.window(UPDATE)

    told = [record for record in caplog.records if record.getMessage() == "refreshed"]
    assert (vars(told[0])["rows_inserted"], vars(told[0])["rows_deleted"]) == (30, 30)


def test_log_tells_what_a_refresh_was_and_why(copied: Lab, caplog: pytest.LogCaptureFixture):
    with caplog.at_level("INFO", logger="pgtrickle"):
        copied.window(UPDATE)
        copied.trickle.refresh_stream_table("copy", full=True)

    told = [vars(one) for one in caplog.records if one.getMessage() == "refreshed"]
    first, last = told[0], told[-1]
    assert first["action"] == "DIFFERENTIAL"
    assert last["action"] == "FULL"
    on_record = copied.value(
        "SELECT reason FROM pgtrickle.pgt_refresh_history ORDER BY refresh_id DESC LIMIT 1"
    )
    assert last["reason"] == on_record


def test_cost_of_a_cold_engine_is_no_evidence(copied: Lab):
    engine = copied.trickle._runtime.engine

    def evidence() -> int:
        return int(
            copied.value(
                "SELECT count(*) FROM pgtrickle.pgt_refresh_history WHERE cost IS NOT NULL"
            )
        )

    def cool() -> None:
        engine.colder += 1  # type: ignore[attr-defined]  # Borrowed

    copied.before_next_stage(cool)
    copied.run(UPDATE)
    copied.trickle.refresh_stream_table("copy")
    assert evidence() == 0
    [latest, *_] = copied.trickle.refresh_history("copy")
    assert latest.actual_ms is not None

    copied.run(UPDATE)
    copied.trickle.refresh_stream_table("copy")
    assert evidence() == 1
