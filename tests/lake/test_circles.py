"""Stream tables that read one another are delivered together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgtrickle.service.refreshing.groups.together import _Group
from tests.lake.shore import FarShore, Shore

_REACH = (
    "SELECT id AS src, k AS dst FROM t UNION"
    " SELECT o.src, t.k FROM onward AS o JOIN t ON t.id = o.dst WHERE t.v < 200"
)


def close_circle(shore: Shore) -> None:
    runtime = shore.trickle._runtime
    usual = runtime.settings
    shore.create("reach", "SELECT DISTINCT id AS src, k AS dst FROM t", "AUTO")
    onward = "SELECT DISTINCT r.src, t.k AS dst FROM reach AS r JOIN t ON t.id = r.dst"
    shore.create("onward", onward, "AUTO")
    runtime.settings = replace(usual, allow_circular=True)
    try:
        shore.trickle.alter_stream_table("reach", query=_REACH)
    finally:
        runtime.settings = usual


def test_members_of_a_circle_are_delivered_with_their_transaction(shore: Shore):
    close_circle(shore)

    for statement in (
        "INSERT INTO t VALUES (200, 300, 1, 'a'), (300, 7, 1, 'b')",
        "UPDATE t SET k = k + 1 WHERE id IN (3, 300)",
        "DELETE FROM t WHERE id = 200",
    ):
        shore.window("reach", statement)
        shore.check("onward")

    assert {one.status.value for one in shore.trickle.lake.ducklake_sink_status()} == {"DELIVERED"}


def test_circle_with_a_transaction_of_its_own_is_delivered_elsewhere_at_once(
    far: FarShore, monkeypatch: pytest.MonkeyPatch
):
    close_circle(far)
    monkeypatch.setattr(_Group, "_captured_from_log", lambda *_: True)

    far.window("reach", "INSERT INTO t VALUES (200, 300, 1, 'a'), (300, 7, 1, 'b')")

    far.check("onward")
    assert {one.status.value for one in far.trickle.lake.ducklake_sink_status()} == {"DELIVERED"}
