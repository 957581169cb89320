"""Prices are found again from refreshes that were made with them."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp

from pgtrickle.plan.cost.work import POSTGRES_PRICES, PRICES, Work, price
from tools.calibrate_prices import calibrate, error


def test_calibration_finds_other_prices():
    true = replace(PRICES, stages=150.0, moved_values=0.003)
    source = random.Random(7)
    measured = []
    for _ in range(60):
        work = Work(
            refreshes=1,
            stages=source.randint(1, 6),
            reads=source.randint(2, 12),
            moved_values=10 ** source.uniform(2, 7),
        )
        measured.append((work, price(work, true) * exp(source.gauss(0, 0.05))))

    found = calibrate(measured)

    assert 100 < found.stages < 220
    assert 0.002 < found.moved_values < 0.0045
    assert found.applied_rows == PRICES.applied_rows
    assert sum(abs(error(one, found)) for one in measured) / 60 < 0.1


def test_an_engine_goes_on_without_what_costs_it_nothing():
    work = Work(refreshes=1, stages=2, large_stages=1, joined_rows=1e6)

    found = calibrate([(work, 3 * price(work, POSTGRES_PRICES))] * 5, POSTGRES_PRICES)

    assert POSTGRES_PRICES.large_stages == found.large_stages == 0
    assert found.joined_rows > POSTGRES_PRICES.joined_rows
