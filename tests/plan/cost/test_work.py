"""Work is added up and priced, and survives the way through the history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgtrickle.plan.cost.work import KINDS, PRICES, Work, price

_AMOUNTS = st.builds(Work, *(st.integers(0, 10**9).map(float) for _ in KINDS))


@given(_AMOUNTS, _AMOUNTS)
def test_more_work_costs_more(first: Work, second: Work):
    assert price(first + second) >= max(price(first), price(second))


@given(_AMOUNTS)
def test_work_comes_back_from_the_history(work: Work):
    assert Work.from_json(work.to_json() | {"forgotten_kind": 7.0}) == work


def test_everything_has_a_price():
    assert all(getattr(PRICES, kind) > 0 for kind in KINDS)
