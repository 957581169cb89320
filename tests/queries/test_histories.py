"""The law of contents on random histories: after every refresh the table is the query."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.labs.histories import QUERIES, SCHEMA, TABLES, starts, windows
from tests.labs.lab import Lab


def play(lab: Lab, start: list[str], query: str, history: list[list[str]]) -> None:
    """Load the shop, make one stream table of the query, and check it after every window."""
    lab.run(*SCHEMA, f"TRUNCATE {', '.join(TABLES)}", *start)
    lab.create("made", query)
    try:
        for statements in history:
            lab.run(*statements)
            report = lab.trickle.refresh_stream_table("made")
            assert report.action.value in {"DIFFERENTIAL", "NO_DATA"}, report.reason
            lab.check("made")
        assert lab.trickle.verify_stream_table("made").ok
    finally:
        lab.queries.clear()
        lab.trickle.drop_stream_table("made")


@pytest.mark.timeout(300)
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(start=starts, query=st.sampled_from(QUERIES), history=windows)
def test_table_is_the_query_after_every_window(lab: Lab, start, query, history):
    play(lab, start, query, history)
