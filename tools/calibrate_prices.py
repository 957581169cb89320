"""Find the prices of the cost model that fit measured refreshes best, and print them.

    python -m tools.calibrate_prices [--engine postgres] DSN [DSN ...]

Reads the refreshes of each database from which the cost model learns: refresh many stream tables
in both ways first, with windows of many sizes.  The prices minimize the squared error of
ln(price / time); each is drawn a little to its present value, so that a kind of work of which the
measurements say nothing keeps it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import exp, log
from statistics import median

import psycopg

from pgtrickle.model.engine import EngineMode
from pgtrickle.model.stream_table import Action
from pgtrickle.plan.cost.record import work_of
from pgtrickle.plan.cost.work import ENGINE_PRICES, KINDS, PRICES, Work, price

_QUERY = """
    SELECT action, actual_ms, cost FROM pgtrickle.pgt_refresh_history
     WHERE cost IS NOT NULL AND status = 'COMPLETED'
       AND COALESCE(cost ->> 'engine', 'spark') = %s
"""
_PULL = 0.02  # to the present price, beside one measurement
_REACH = log(3.0)  # errors beyond this count as this: accidents
_STEPS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
_ROUNDS = 8

Measured = tuple[Work, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the prices of an engine that fit the databases' histories."""
    parser = argparse.ArgumentParser(prog="tools.calibrate_prices", description=__doc__)
    engines = [one.value for one in ENGINE_PRICES]
    parser.add_argument("--engine", choices=engines, default=EngineMode.SPARK.value)
    parser.add_argument("dsn", nargs="+")
    options = parser.parse_args(arguments)
    engine = EngineMode(options.engine)
    measured = [one for dsn in options.dsn for one in read(dsn, engine)]
    start = ENGINE_PRICES[engine]
    if not measured:
        sys.stderr.write("no measured refreshes\n")
        return 1
    prices = calibrate(measured, start)
    for kind in KINDS:
        old, new = getattr(start, kind), getattr(prices, kind)
        sys.stdout.write(f"    {kind}={new:.4g},  # was {old:g}\n")
    for name, listed in (("before", start), ("after", prices)):
        factor = exp(median(abs(error(one, listed)) for one in measured))
        sys.stdout.write(f"# {name}: off by a factor of {factor:.2f} in the median\n")
    return 0


def read(dsn: str, engine: EngineMode = EngineMode.SPARK) -> list[Measured]:
    """Read the measured refreshes of a database that an engine computed."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(_QUERY, [engine.value]).fetchall()
    found = [(work_of(cost, Action(action)), actual_ms) for action, actual_ms, cost in rows]
    return [(work, actual_ms) for work, actual_ms in found if work is not None]


def error(measured: Measured, prices: Work) -> float:
    """Return by how much the price of a refresh is wrong, as a logarithm."""
    work, actual_ms = measured
    return log(max(price(work, prices), 0.1)) - log(max(actual_ms, 0.1))


def calibrate(measured: Sequence[Measured], start: Work = PRICES) -> Work:
    """Move one price at a time, by ever smaller steps, while that makes the loss smaller."""
    prices, best = start, _loss(measured, start, start)
    for step in _STEPS:
        for _ in range(_ROUNDS):
            before = best
            for kind in KINDS:
                for factor in (exp(step), exp(-step)):
                    moved = replace(prices, **{kind: getattr(prices, kind) * factor})
                    loss = _loss(measured, moved, start)
                    if loss < best:
                        prices, best = moved, loss
            if best == before:
                break
    return prices


def _loss(measured: Sequence[Measured], prices: Work, start: Work) -> float:
    fit = sum(min(abs(error(one, prices)), _REACH) ** 2 for one in measured)
    moved = sum(
        log(getattr(prices, kind) / getattr(start, kind)) ** 2
        for kind in KINDS
        if getattr(start, kind)  # an engine does not do what costs it nothing
    )
    return fit + _PULL * moved


if __name__ == "__main__":
    sys.exit(main())
