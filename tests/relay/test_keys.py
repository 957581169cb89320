"""Equal keys are one text, so that a receiver that compares texts keeps their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgtrickle.relay.envelopes import Envelope, decode
from tests.labs.lab import Lab
from tests.relay.shop import deliver


def test_a_numeric_key_keeps_its_text_when_its_scale_changes(
    postgres_lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lab, lines = postgres_lab, tmp_path / "changes.jsonl"
    monkeypatch.setenv("PGTRICKLE_RELAY_FILES", str(tmp_path))
    lab.run(
        "CREATE TABLE sizes (size numeric PRIMARY KEY, n int)", "INSERT INTO sizes VALUES (1.0, 1)"
    )
    lab.create("s", "SELECT size, n FROM sizes")
    lab.trickle.outbox.enable_outbox("s")
    lab.trickle.relay.create_relay_pipeline("p", "s", "file", {"path": str(lines)})
    deliver(lab)
    for statement in (
        "UPDATE sizes SET size = 1.00, n = 2",
        "DELETE FROM sizes",
        "INSERT INTO sizes VALUES (1, 3)",
    ):
        lab.run(statement)
        lab.trickle.refresh_stream_table("s")
    deliver(lab)
    told = [decode(line, Envelope.PLAIN) for line in lines.read_bytes().splitlines()]
    assert {str(one.key) for one in told if one.key is not None} == {"{'size': 1}"}
    assert [str((one.after or {}).get("size")) for one in told] == [
        "None",
        "1.0",
        "1.00",
        "None",
        "1",
    ]
