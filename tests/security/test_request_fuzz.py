"""Any row in the queue against the real server: it ends, with a code, and the server lives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgtrickle.service.requests.arguments import _TYPES
from pgtrickle.service.requests.verbs import VERBS
from tests.security.bench import Bench
from tests.security.serving import ended, serving, stocked, submit, until

# PostgreSQL's text has neither NUL nor halves of pairs.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**120), 10**120),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
        st.sampled_from(["shop.revenue", '"shop"."revenue"', "1m", "FULL", "SELECT 1", "default"]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=8,
)
# What takes another minute or leads elsewhere is left to tests of its own.
KNOWN = sorted(VERBS.keys() - {"attach_ducklake_table", "detach_ducklake_table"})
NAMES = st.one_of(st.sampled_from(sorted(_TYPES)), TEXT)
ROWS = st.tuples(
    st.one_of(st.sampled_from(KNOWN), TEXT.filter(lambda one: len(one.encode()) <= 63)),
    st.one_of(
        st.dictionaries(NAMES, VALUES, max_size=5),
        VALUES.map(lambda value: {"name": value}),
        VALUES.map(lambda value: {"names": [value], "params": {"tier": value}}),
    ),
)


@pytest.mark.parametrize("who", ["attacker", "owner"])
def test_any_row_ends_with_a_code(bench: Bench, who: str):
    with stocked(bench, "attacker") as lab, serving(lab, workers=3):
        caller = bench.open(who)

        @given(ROWS)
        @settings(
            max_examples=100,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def check(row: tuple[str, dict[str, Any]]) -> None:
            verb, arguments = row
            request = submit(caller, verb, json.dumps(arguments))
            until(lambda: ended(lab, request), 60)
            status, code = ended(lab, request) or ("", None)
            assert status == "COMPLETED" or code not in {None, "ST604", "ST901"}, row

        check()

        mine = submit(bench.open("owner"), "diamond_groups")
        until(lambda: ended(lab, mine))
        assert ended(lab, mine) == ("COMPLETED", None)
