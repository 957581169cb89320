"""The fit: the price without evidence, the measured time with it, and nothing that pulls far."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrickle.plan.cost.fit import PRIOR_SPREAD, Observation, predict

_MS = st.floats(1.0, 1e6)


@given(_MS)
def test_without_evidence_the_price_is_the_prediction(price: float):
    prediction = predict(price, [])

    assert prediction.ms == pytest.approx(price)
    assert prediction.spread == pytest.approx(PRIOR_SPREAD)


@given(_MS, st.floats(0.1, 10.0))
def test_much_evidence_is_the_prediction(price: float, factor: float):
    own = [Observation(price, price * factor, age) for age in range(24)]

    assert predict(price, own).ms == pytest.approx(price * factor, rel=0.2)


def test_the_slope_is_learned():
    """Times that grow with the square root of the price."""
    own = [Observation(10.0 ** (1 + n % 4), 100 * 10.0 ** ((n % 4) / 2), n) for n in range(24)]

    assert predict(100.0, own).ms == pytest.approx(100 * 10**0.5, rel=0.4)
    assert predict(10_000.0, own).ms < 5000


def test_evidence_from_another_order_of_magnitude_counts_less():
    near = predict(100.0, [Observation(100.0, 400.0, age) for age in range(10)])
    far = predict(100.0, [Observation(1e5, 4e5, age) for age in range(10)])

    assert 100.0 < far.ms < near.ms


@given(_MS, st.floats(1e-3, 1e3))
def test_one_run_moves_the_prediction_by_less_than_its_reach(price: float, factor: float):
    own = [Observation(price, price * factor, 0)]

    assert abs(log(predict(price, own).ms / price)) < log(2.0)


@given(_MS, _MS, _MS)
def test_a_slower_past_never_makes_a_faster_prediction(price: float, first: float, second: float):
    slow, fast = max(first, second), min(first, second)

    assert predict(price, [Observation(price, fast, 0)]).ms <= (
        predict(price, [Observation(price, slow, 0)]).ms * 1.000001
    )


def test_old_evidence_fades():
    now, then = (predict(100.0, [Observation(100.0, 180.0, age)] * 4) for age in (0, 600))

    assert now.ms > 140
    assert then.ms == pytest.approx(100.0, rel=0.01)
    assert now.spread < then.spread == pytest.approx(PRIOR_SPREAD, rel=0.01)


def test_a_slow_machine_is_slow_for_both():
    other = [Observation(100.0, 400.0, age) for age in range(10)]

    assert predict(500.0, [], other).ms == pytest.approx(1000.0)
