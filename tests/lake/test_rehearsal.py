"""A rehearsed refresh delivers nothing to a lake."""

from __future__ import annotations

import json

from tests.lake.shore import SUMS, Shore


def test_a_rehearsal_leaves_the_lake_as_it_is(shore: Shore) -> None:
    shore.create("sums", SUMS)
    before = shore.files(), sorted(shore.ask("TABLE sums")), shore.status()
    shore.run("UPDATE t SET v = v + 1 WHERE k = 1")

    shown = shore.trickle.explain_stream_table("sums", "json", with_analyze=True)

    assert json.loads(shown)["rows_inserted"] == 1
    assert (shore.files(), sorted(shore.ask("TABLE sums")), shore.status()) == before
    shore.window("sums", "UPDATE t SET v = v + 1 WHERE k = 2")
