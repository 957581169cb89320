"""What SQL tells about stream tables agrees with what happened to them."""

from __future__ import annotations

import psycopg
import pytest

from pgtrickle.errors import DataError, PrivilegeError
from tests.labs.lab import Lab, Row

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"


@pytest.fixture
def chain(lab: Lab) -> Lab:
    lab.run(*T)
    lab.create("counts", COUNTS)
    lab.create("top", "SELECT max(n) AS n FROM counts")
    lab.run("INSERT INTO t VALUES (3, 1)")
    lab.trickle.refresh_stream_table("counts")
    return lab


def ask(lab: Lab, what: str, columns: str = "*") -> list[Row]:
    return lab.rows(f"SELECT {columns} FROM pgtrickle.{what}")


def test_status_and_info(chain: Lab):
    assert ask(chain, "pgt_status()", "name, status, refresh_mode, is_populated") == [
        ("public.counts", "ACTIVE", "DIFFERENTIAL", True),
        ("public.top", "ACTIVE", "DIFFERENTIAL", True),
    ]
    assert ask(chain, "stream_tables_info", "pgt_name, stale, staleness > '0'") == [
        ("counts", None, True),  # refreshed when top needs it
        ("top", False, True),
    ]


def test_late_refresh_is_stale_and_cron_is_not_asked(chain: Lab):
    chain.run(
        "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '5 minutes',"
        " schedule = CASE pgt_name WHEN 'top' THEN '@hourly' ELSE '2m' END"
    )

    assert ask(chain, "stream_tables_info", "pgt_name, stale") == [("counts", True), ("top", None)]


@pytest.mark.parametrize(("tier", "stale"), [("hot", True), ("warm", False), ("frozen", None)])
def test_tier_says_when_a_refresh_is_late(chain: Lab, tier: str, stale: object):
    chain.run(
        "UPDATE pgtrickle.pgt_stream_tables SET last_refresh_at = now() - interval '5 minutes',"
        f" schedule = '2m', tier = '{tier}'"
    )

    assert ask(chain, "stream_tables_info", "DISTINCT stale") == [(stale,)]


def test_history_is_the_newest_first(chain: Lab):
    found = chain.connection.execute(
        "SELECT action, status, rows_inserted, rows_deleted FROM"
        " pgtrickle.get_refresh_history('counts')"
    ).fetchall()

    assert found == [("DIFFERENTIAL", "COMPLETED", 1, 1), ("FULL", "COMPLETED", 1, 0)]
    assert len(ask(chain, "get_refresh_history('counts', 1)")) == 1
    assert len(ask(chain, "refresh_timeline(2)")) == 2


def test_staleness_is_the_age_of_the_contents(chain: Lab):
    chain.run(
        "UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = now() - interval '90 seconds'"
    )

    assert 90 <= chain.value("SELECT pgtrickle.get_staleness('counts')") < 120


def test_sources_and_buffers(chain: Lab):
    chain.run("INSERT INTO t VALUES (4, 4), (5, 5)")

    assert ask(chain, "list_sources('top')", "source_table, source_type, cdc_mode") == [
        ("public.counts", "STREAM_TABLE", "TRIGGER")
    ]
    assert ask(chain, "change_buffer_sizes()", "source_table, consumers, pending_rows") == [
        ("public.counts", 1, 2),
        ("public.t", 1, 2),
    ]


def test_tree_shows_each_above_its_sources(chain: Lab):
    lines = chain.connection.execute("SELECT tree_line FROM pgtrickle.dependency_tree()").fetchall()

    assert [line for (line,) in lines] == [
        "public.top",
        "└── public.counts",
        "    └── public.t",
    ]


def test_tree_has_branches(chain: Lab):
    chain.run("CREATE TABLE u (id int PRIMARY KEY)")
    chain.create("side", "SELECT u.id FROM u JOIN counts ON counts.n = u.id")

    lines = chain.connection.execute("SELECT tree_line FROM pgtrickle.dependency_tree()").fetchall()

    assert [line for (line,) in lines] == [
        "public.side",
        "├── public.counts",
        "│   └── public.t",
        "└── public.u",
        "public.top",
        "└── public.counts",
        "    └── public.t",
    ]


def test_efficiency_and_sla_count_what_ran(chain: Lab):
    columns = "name, total_refreshes, differential_count, full_count, speedup IS NOT NULL"
    assert ask(chain, "refresh_efficiency()", columns) == [
        ("public.counts", 2, 1, 1, True),
        ("public.top", 1, 0, 1, False),
    ]
    columns = "name, refreshes, p50_ms <= p99_ms, error_rate, error_budget_remaining"
    assert ask(chain, "sla_summary()", columns) == [
        ("public.counts", 2, True, 0, 1),
        ("public.top", 1, True, 0, 1),
    ]


def test_failures_use_the_error_budget_up(lab: Lab):
    lab.run(*T)
    lab.create("shares", "SELECT id, 10 / k AS share FROM t")
    lab.run("INSERT INTO t VALUES (3, 0)")
    with pytest.raises(DataError):
        lab.trickle.refresh_stream_table("shares")

    assert ask(lab, "sla_summary()", "error_rate, error_budget_remaining") == [(0.5, 0)]
    assert ("errors", "WARNING") in ask(lab, "health_check()", "check_name, severity")


def test_failure_that_does_not_count_is_told_until_it_is_over(lab: Lab):
    lab.run(*T)
    lab.create("copy", "SELECT id FROM t")
    lab.run("INSERT INTO t VALUES (3, 0)")

    def refuse() -> None:
        raise PrivilegeError("permission denied for table t", hint="GRANT SELECT ON t TO me;")

    lab.before_next_stage(refuse)
    with pytest.raises(PrivilegeError):
        lab.trickle.refresh_stream_table("copy")

    [failing] = lab.trickle.status().failing
    assert (failing.stream_table, failing.consecutive_errors) == ("public.copy", 0)
    assert "permission denied" in (failing.last_error or "")
    assert ("errors", "WARNING") in ask(lab, "health_check()", "check_name, severity")
    [check] = [one for one in lab.trickle.doctor() if one.name == "stream tables"]
    assert not check.ok
    assert "permission denied" in check.detail

    lab.trickle.refresh_stream_table("copy")
    assert lab.trickle.status().failing == []
    assert ("errors", "OK") in ask(lab, "health_check()", "check_name, severity")


def test_health_names_what_is_wrong(chain: Lab):
    chain.run("DELETE FROM pgtrickle.pgt_request_servers")
    chain.run("UPDATE pgtrickle.pgt_stream_tables SET status = 'SUSPENDED' WHERE pgt_name = 'top'")
    chain.run("ALTER TABLE t DISABLE TRIGGER ALL")
    chain.run(
        "UPDATE pgtrickle.pgt_stream_tables SET fuse_blown_at = now(), fuse_reason = 'too much'"
        " WHERE pgt_name = 'counts'"
    )

    found = {
        row[0]: row[1:] for row in ask(chain, "health_check()", "check_name, severity, detail")
    }

    assert found["daemon"][0] == "CRITICAL"
    assert found["suspended"] == ("CRITICAL", "public.top")
    assert found["errors"] == found["drained"] == ("OK", "")
    assert found["fuses"] == ("WARNING", "public.counts: too much")
    assert found["capture"][0] == "WARNING"
    assert "public.t" in found["capture"][1]
    assert ask(chain, "quick_health", "status, stream_tables") == [("CRITICAL", 2)]


def test_healthy_and_empty(served: Lab):
    assert ask(served, "quick_health", "status") == [("EMPTY",)]
    served.run(*T)
    served.create("counts", COUNTS)

    assert ask(served, "quick_health", "status, stream_tables, detail") == [("OK", 1, None)]


def test_version_is_that_of_the_catalog(lab: Lab):
    newest = lab.value("SELECT max(version) FROM pgtrickle.pgt_schema_version")

    assert ask(lab, "version()", "catalog_version, daemon_running") == [(newest, False)]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1), ("1h30m", 5400), ("2w", 1209600), ("soon", None), ("", None), ("1h x", None)],
)
def test_durations(lab: Lab, text: str, seconds: float | None):
    assert lab.value(f"SELECT pgtrickle.parse_duration_seconds('{text}')") == seconds


@pytest.mark.parametrize("name", ["nope", "no.such.table", 'x."t"'])
def test_unknown_name_is_an_error_with_its_code(lab: Lab, name: str):
    with pytest.raises(psycopg.Error) as caught:
        lab.value(f"SELECT pgtrickle.get_staleness('{name}')")

    assert caught.value.sqlstate == "ST201"
