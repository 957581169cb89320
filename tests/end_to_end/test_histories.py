"""The law of contents on random histories, on real Spark: fewer of them."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.labs.histories import QUERIES, starts, windows
from tests.labs.lab import Lab
from tests.queries.test_histories import play


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(start=starts, query=st.sampled_from(QUERIES), history=windows)
def test_table_is_the_query_after_every_window(lab: Lab, start, query, history):
    play(lab, start, query, history)
