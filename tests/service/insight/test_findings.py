"""health_check() and doctor: each finding has severity, evidence and the command that helps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgtrickle.model.status_report import HealthCheck, Severity
from tests.labs.lab import Lab

CHECKS = [
    "daemon", "stale_daemons", "drained", "suspended", "fuses", "errors", "stale", "pace", "load",
    "reinitialize", "capture", "snapshots", "slots", "sinks", "lake", "outboxes", "indexes",
    "wraparound", "clock", "long_transactions",
]  # fmt: skip


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
    lab.create("counts", "SELECT k, count(*) AS n FROM t GROUP BY k")
    return lab


@pytest.fixture
def other(lab: Lab) -> Iterator[psycopg.Connection[Any]]:
    connection = psycopg.connect(lab.trickle.dsn, application_name="batch")
    yield connection
    connection.close()  # not committed: somebody may have ended it


def found(lab: Lab, name: str) -> list[HealthCheck]:
    return [one for one in lab.trickle.health_check() if one.check_name == name]


def one_found(lab: Lab, name: str) -> HealthCheck:
    [finding] = found(lab, name)
    assert finding.severity is not Severity.OK
    assert finding.detail
    assert finding.command
    return finding


def evidence(finding: HealthCheck) -> dict[str, Any]:
    assert finding.evidence is not None
    return dict(finding.evidence)


def test_each_check_has_a_row(lab: Lab) -> None:
    checks = lab.trickle.health_check()

    assert [one.check_name for one in checks] == CHECKS
    assert {(one.severity, one.evidence, one.command) for one in checks} == {
        (Severity.OK, None, None)
    }


def test_a_daemon_that_died_without_a_word(shop: Lab) -> None:
    shop.run(
        "INSERT INTO pgtrickle.pgt_daemons (daemon, started_at, seen_at, package) VALUES"
        " ('db1:4711:abc', now() - interval '1 hour', now() - interval '40 seconds', '1.0')"
    )

    finding = one_found(shop, "stale_daemons")

    assert finding.severity is Severity.WARNING
    assert evidence(finding)["daemon"] == "db1:4711:abc"


def test_a_long_transaction_and_what_ends_it(
    shop: Lab, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other.execute("SELECT 1 FROM t")
    assert found(shop, "long_transactions")[0].severity is Severity.OK
    shop.run(
        "SELECT pg_sleep(1.1)", "SELECT pgtrickle.set_setting('long_transaction_seconds', '1')"
    )

    finding = one_found(shop, "long_transactions")

    assert evidence(finding)["pid"] == other.info.backend_pid
    assert evidence(finding)["application"] == "batch"
    assert "SELECT 1" not in str(finding)  # the text of a statement may hold a secret
    shop.run(str(finding.command), "SELECT pg_sleep(0.1)")
    assert found(shop, "long_transactions")[0].severity is Severity.OK
    shop.run("SELECT pgtrickle.set_setting('long_transaction_seconds', NULL)")


def test_a_stream_table_without_the_index_of_its_rows(shop: Lab) -> None:
    shop.run("INSERT INTO t SELECT n, n FROM generate_series(3, 2500) AS n")
    shop.refresh("counts")
    [(index,)] = shop.rows(
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'counts'::regclass"
    )
    shop.run("ANALYZE counts")
    assert found(shop, "indexes")[0].severity is Severity.OK
    shop.run(f"DROP INDEX {index}")

    finding = one_found(shop, "indexes")

    assert finding.command == "pgtrickle refresh public.counts --full"
    assert evidence(finding)["rows"] == 2499
    shop.trickle.refresh_stream_table("counts", full=True)
    assert found(shop, "indexes")[0].severity is Severity.OK


def test_the_age_of_transaction_ids(shop: Lab) -> None:
    ask = "SELECT severity, evidence, command FROM pgtrickle.check_wraparound(%s, %s)"
    rows = shop.connection.execute(ask, [0, 1]).fetchall()
    warned = shop.connection.execute(ask, [0, 1e9]).fetchall()
    none = shop.connection.execute(ask, [1e9, 2e9]).fetchall()

    ages = {found["kind"]: found["age"] for _, found, _ in rows}
    assert ages["transactions"] == shop.value(
        "SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()"
    )
    assert rows[0][0] == "CRITICAL"
    assert {severity for severity, *_ in warned} == {"WARNING"}
    assert none == []
    shop.run(rows[0][2])  # VACUUM (FREEZE) of the oldest table


def test_a_clock_that_stepped_back(shop: Lab) -> None:
    shop.run(
        "UPDATE pgtrickle.pgt_stream_tables SET data_timestamp = now() + interval '90 seconds'"
    )

    finding = one_found(shop, "clock")

    assert "public.counts" in finding.detail
    assert evidence(finding)["stream_table"] == "public.counts"


def test_a_slot_that_is_gone(shop: Lab) -> None:
    shop.run(
        "INSERT INTO pgtrickle.pgt_wal_slots (slot_name, publication_name, position)"
        " VALUES ('pgtrickle_gone', 'p', '0/0')"
    )
    try:
        finding = one_found(shop, "slots")
        assert finding.severity is Severity.CRITICAL
        assert "pgtrickle_gone is gone" in finding.detail
    finally:
        shop.run("DELETE FROM pgtrickle.pgt_wal_slots")


def test_a_snapshot_that_holds_changes_back(shop: Lab) -> None:
    shop.run("SELECT pgtrickle.set_setting('snapshot_keeps_changes', 'on')")
    try:
        shop.trickle.snapshots.snapshot_stream_table("counts", "old")
        shop.trickle.snapshots.snapshot_stream_table("counts", "newer")
        assert found(shop, "snapshots")[0].severity is Severity.OK
        shop.run("INSERT INTO t SELECT n, n FROM generate_series(3, 400000) AS n")

        finding = one_found(shop, "snapshots")

        assert finding.command == "pgtrickle snapshot drop public.old"
        assert evidence(finding)["source"] == "public.t"
        assert evidence(finding)["buffer_bytes"] >= 16 * 2**20
    finally:
        shop.run("SELECT pgtrickle.set_setting('snapshot_keeps_changes', NULL)")


def test_many_findings_are_cut_short(shop: Lab) -> None:
    for number in range(24):
        shop.trickle.create_stream_table(
            f"s{number:02}", "SELECT k FROM t", refresh_mode="FULL", initialize=False
        )
    shop.run("UPDATE pgtrickle.pgt_stream_tables SET status = 'SUSPENDED'")

    suspended = found(shop, "suspended")

    assert len(suspended) == 21
    assert suspended[-1].detail == "and 5 more"
    assert suspended[0].command == "pgtrickle alter public.counts --status ACTIVE"


@pytest.mark.parametrize(
    ("change", "name", "command"),
    [
        ("ALTER TABLE t DISABLE TRIGGER ALL", "capture", "pgtrickle cdc rebuild"),
        (
            "UPDATE pgtrickle.pgt_stream_tables SET fuse_blown_at = now(), fuse_reason = 'much'",
            "fuses",
            "pgtrickle fuse reset public.counts",
        ),
        ("CALL pgtrickle.drain(0)", "drained", "pgtrickle scheduler undrain"),
    ],
)
def test_the_command_that_helps(shop: Lab, change: str, name: str, command: str) -> None:
    shop.run(change)
    try:
        assert one_found(shop, name).command == command
        [told] = [one for one in shop.trickle.doctor() if one.name == name]
        assert told.severity is Severity.WARNING
        assert (told.command, told.ok) == (command, True)
    finally:
        shop.run("SELECT pgtrickle.undrain()")


def test_doctor_compares_the_clocks(shop: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    [clocks] = [one for one in shop.trickle.doctor() if one.name == "clocks"]

    assert (clocks.severity, clocks.detail) == (Severity.OK, "agree")
