"""Self-monitoring: stream tables over the history, which come to rest and go without a trace."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from pgtrickle.errors import DependentsExistError
from pgtrickle.model.stream_table import Action, InitiatedBy
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.self_monitoring.parts import PARTS
from pgtrickle.service.refreshing.dispatch import refresh_stream_table
from tests.labs.lab import Lab

SCHEMA = "pgtrickle_monitoring"
NAMES = [f"{SCHEMA}.{part}" for part in PARTS]


@pytest.fixture
def monitored(postgres_lab: Lab) -> Iterator[Lab]:
    lab = postgres_lab
    lab.run(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")  # of a test that failed
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    lab.create("counts", "SELECT k, 100 / count(*) AS n FROM t GROUP BY k")
    assert lab.trickle.insight.setup_self_monitoring("30s") == NAMES
    # What the query means without pgtrickle: the schema of the catalog is on no path.
    lab.queries |= dict(zip(NAMES, PARTS.values(), strict=True))
    yield lab
    lab.trickle.drop_stream_table("counts")
    if lab.trickle.insight.self_monitoring_status():
        lab.trickle.insight.teardown_self_monitoring()


def schedule(lab: Lab) -> list[Action]:
    """Refresh the parts as the scheduler does."""
    by = InitiatedBy.SCHEDULER
    names = [QualifiedName(SCHEMA, part) for part in PARTS]
    runtime = lab.trickle._runtime
    return [refresh_stream_table(runtime, name, initiated_by=by).action for name in names]


def history(lab: Lab) -> int:
    return int(lab.value("SELECT count(*) FROM pgtrickle.pgt_refresh_history"))


def check(lab: Lab) -> None:
    for name in NAMES:
        lab.check(name)


def test_they_equal_their_queries_over_the_history(monitored: Lab) -> None:
    for number in range(3, 6):
        monitored.run(f"INSERT INTO t VALUES ({number}, {number})")
        monitored.trickle.refresh_stream_table("counts")
    monitored.run(
        "UPDATE pgtrickle.pgt_refresh_history SET actual_ms = 9000, predicted_ms = 10"
        " WHERE refresh_id = (SELECT max(refresh_id) FROM pgtrickle.pgt_refresh_history"
        " WHERE changed_rows > 0)"
    )

    assert schedule(monitored) == [Action.DIFFERENTIAL] * 3

    check(monitored)
    counts = monitored.trickle.get_stream_table("counts").id
    assert monitored.rows(f"SELECT action, refreshes FROM {SCHEMA}.efficiency") == [
        ("DIFFERENTIAL", 3),
        ("FULL", 1),
    ]
    assert monitored.rows(f"SELECT pgt_id, anomaly FROM {SCHEMA}.anomalies") == [(counts, "slow")]
    assert monitored.value(f"SELECT sum(changed_rows) FROM {SCHEMA}.buffer_trends") == 3


def test_they_come_to_rest(monitored: Lab) -> None:
    monitored.run("INSERT INTO t VALUES (3, 3)")
    monitored.trickle.refresh_stream_table("counts")
    schedule(monitored)  # which leaves rows in the history
    before = history(monitored)
    schedule(monitored)
    schedule(monitored)

    assert history(monitored) == before
    assert schedule(monitored) == [Action.NO_DATA] * 3
    check(monitored)


def test_what_the_retention_deletes_leaves_them(monitored: Lab) -> None:
    monitored.run(
        "UPDATE pgtrickle.pgt_refresh_history SET start_time = '2001-01-01', end_time ="
        " '2001-01-02'"
    )
    schedule(monitored)
    assert monitored.trickle.daemon.prune_history() > 0

    schedule(monitored)

    check(monitored)
    assert monitored.rows(f"TABLE {SCHEMA}.efficiency") == []


def test_setting_up_again_makes_what_is_missing(monitored: Lab) -> None:
    monitored.trickle.drop_stream_table(NAMES[0])
    assert [one.stream_table for one in monitored.trickle.insight.self_monitoring_status()] == (
        NAMES[1:]
    )

    assert sorted(monitored.trickle.insight.setup_self_monitoring()) == sorted(NAMES)

    assert monitored.trickle.get_stream_table(NAMES[0]).schedule == "1m"
    check(monitored)


def test_tearing_down_leaves_nothing(monitored: Lab) -> None:
    assert sorted(monitored.trickle.insight.teardown_self_monitoring()) == sorted(NAMES)

    assert monitored.trickle.insight.self_monitoring_status() == []
    assert monitored.value(f"SELECT to_regnamespace('{SCHEMA}') IS NULL")
    assert monitored.rows(
        "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
        " AND tgrelid IN ('pgtrickle.pgt_refresh_history'::regclass,"
        " 'pgtrickle.pgt_self_monitoring'::regclass)"
    ) == []  # fmt: skip
    assert monitored.rows("SELECT source_name FROM pgtrickle.pgt_change_tracking") == [("t",)]
    assert monitored.trickle.insight.teardown_self_monitoring() == []
    monitored.run("INSERT INTO t VALUES (9, 9)")
    monitored.trickle.refresh_stream_table("counts")


def test_tearing_down_stops_at_what_others_read(monitored: Lab) -> None:
    monitored.create("mine", f"SELECT count(*) AS n FROM {SCHEMA}.efficiency")

    with pytest.raises(DependentsExistError):
        monitored.trickle.insight.teardown_self_monitoring()

    assert [one.part for one in monitored.trickle.insight.self_monitoring_status()] == [
        "efficiency"
    ]
    monitored.trickle.drop_stream_table("mine")
    assert monitored.trickle.insight.teardown_self_monitoring() == [NAMES[0]]


def test_a_schema_of_the_user_with_other_things_stays(monitored: Lab) -> None:
    monitored.run(f"CREATE TABLE {SCHEMA}.notes (a int)")

    monitored.trickle.insight.teardown_self_monitoring()

    assert monitored.rows(f"TABLE {SCHEMA}.notes") == []
    monitored.run(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_writers_of_the_history_do_not_fail(monitored: Lab) -> None:
    """A refresh that waits for nobody writes its row, whatever reads the history."""
    with psycopg.connect(monitored.trickle.dsn) as reader:
        reader.execute(f"SELECT count(*) FROM {SCHEMA}.efficiency, pgtrickle.pgt_refresh_history")
        monitored.run("INSERT INTO t VALUES (3, 3)")
        assert monitored.trickle.refresh_stream_table("counts").rows_inserted == 1
