"""Stream tables whose sources are captured from the log, for the tests of that."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab

T = (
    "CREATE TABLE t (id int PRIMARY KEY, k int, note text)",
    "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b')",
)
COPY = "SELECT id, k, note FROM t"
COUNTS = "SELECT k, count(*) AS n, max(id) AS last FROM t GROUP BY k"

_CLEAR = (
    "DELETE FROM pgtrickle.pgt_wal_slots",
    "DROP PUBLICATION IF EXISTS pgtrickle_capture",
    "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
    " WHERE database = current_database()",
)


def create(lab: Lab, name: str, query: str, cdc_mode: str = "wal") -> None:
    lab.trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL", cdc_mode=cdc_mode)
    lab.queries[name] = query
    lab.check(name)


def need_log(lab: Lab) -> None:
    """Skip a test on a server, given by the user, whose log tells no changes."""
    if lab.value("SHOW wal_level") != "logical":
        pytest.skip("the server has another wal_level than logical")


def clear(lab: Lab) -> None:
    """Take slot and publication away."""
    lab.reset()
    lab.run(*_CLEAR)


def modes(lab: Lab) -> dict[str, str]:
    return dict(lab.rows("SELECT source_name, cdc_mode FROM pgtrickle.pgt_change_tracking"))


def notes(lab: Lab) -> dict[str, str | None]:
    return dict(lab.rows("SELECT source_name, cdc_note FROM pgtrickle.pgt_change_tracking"))


def triggers(lab: Lab) -> int:
    return int(lab.value("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'pgtrickle_capture%'"))


def slots(lab: Lab) -> int:
    return int(
        lab.value("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    )


def slot_name(lab: Lab) -> str:
    return str(lab.value("SELECT slot_name FROM pgtrickle.pgt_wal_slots"))
