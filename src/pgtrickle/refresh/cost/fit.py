"""Correct the price of an action by what it took before: a log-linear fit.

For each refresh of the past that ran this action, let x = ln(price of its work) and
r = ln(time it took) - x.  The fit is the line  r = a + b (x - x0)  through these points, where x0
belongs to the refresh at hand; so e^a is by how much the price is wrong there, and 1 + b is the
slope of ln(time) over ln(price).

    prediction  =  price x e^a

* **The prior takes part** as three points of weight ``PRIOR_WEIGHT``, at x0 and a factor of ten
  on either side, with r = the centre of what the *other* action showed, halved: a slow machine is
  slow for both.  Without any history the prediction is the price.
* **Evidence ages.**  A point counts half as much after every ``HALF_LIFE`` refreshes of the
  stream table, whichever action they ran.  An action that is not taken falls back to the prior.
* **No point pulls far.**  The line starts at the weighted median, and points further than
  ``REACH`` from it are moved to that distance before the next pass (winsorized).  So a run that
  took a hundred times as long counts as one that took twice as long.

``spread`` is how uncertain a is, as a standard deviation of ln(time): ``PRIOR_SPREAD`` without
evidence, less with it, and back again as it ages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

PRIOR_WEIGHT = 0.5
PRIOR_SPREAD = log(2.0)
HALF_LIFE = 8.0
REACH = log(2.0)
_DISTANCE = log(10.0)
_PASSES = 3
_SHARED = 0.5


@dataclass(frozen=True, slots=True)
class Observation:
    """One refresh of the past: its price, its time, and how many refreshes ago it was."""

    price_ms: float
    actual_ms: float
    age: int

    @property
    def residual(self) -> float:
        """By how much the price was wrong, as a logarithm."""
        return log(max(self.actual_ms, 0.1)) - log(max(self.price_ms, 0.1))

    @property
    def weight(self) -> float:
        """How much it still counts."""
        return float(0.5 ** (self.age / HALF_LIFE))


@dataclass(frozen=True, slots=True)
class Prediction:
    """What an action would take, and how sure that is."""

    price_ms: float
    ms: float
    spread: float

    @property
    def optimistic_ms(self) -> float:
        """What it would take if things went better than expected."""
        return self.ms * exp(-self.spread)


@dataclass(frozen=True, slots=True)
class _Point:
    x: float  # from x0
    r: float
    weight: float


def predict(
    price_ms: float, own: Sequence[Observation], other: Sequence[Observation] = ()
) -> Prediction:
    """Predict the time of an action from its price, its own past and that of the other action."""
    x0 = log(max(price_ms, 0.1))
    belief = _SHARED * _centre([_Point(0.0, one.residual, one.weight) for one in other])
    points = [_Point(x, belief, PRIOR_WEIGHT) for x in (-_DISTANCE, 0.0, _DISTANCE)]
    points += [_Point(log(max(one.price_ms, 0.1)) - x0, one.residual, one.weight) for one in own]
    intercept, slope = _median([(point.r, point.weight) for point in points]), 0.0
    variance = 0.0
    for _ in range(_PASSES):
        moved = [_moved(point, intercept + slope * point.x) for point in points]
        intercept, slope, variance = _line(moved)
    spread = PRIOR_SPREAD * min(1.0, sqrt(variance * 3 * PRIOR_WEIGHT))
    return Prediction(price_ms, price_ms * exp(intercept), spread)


def _moved(point: _Point, expected: float) -> _Point:
    """Move a point that lies out of reach of the line to where it is just within."""
    low, high = expected - REACH, expected + REACH
    return _Point(point.x, min(max(point.r, low), high), point.weight)


def _line(points: Sequence[_Point]) -> tuple[float, float, float]:
    """Return intercept and slope of the weighted least squares, and the intercept's variance."""
    w = sum(point.weight for point in points)
    wx = sum(point.weight * point.x for point in points)
    wxx = sum(point.weight * point.x**2 for point in points)
    wr = sum(point.weight * point.r for point in points)
    wxr = sum(point.weight * point.x * point.r for point in points)
    determinant = w * wxx - wx**2  # positive: the prior's points lie apart
    intercept = (wxx * wr - wx * wxr) / determinant
    slope = (w * wxr - wx * wr) / determinant
    return intercept, slope, wxx / determinant


def _centre(points: Sequence[_Point]) -> float:
    """Return the middle of what an action showed, drawn to nothing where there is little of it."""
    return _median([(0.0, 3 * PRIOR_WEIGHT), *((point.r, point.weight) for point in points)])


def _median(values: Sequence[tuple[float, float]]) -> float:
    """Return the weighted median.

    >>> _median([(0.0, 2.0), (5.0, 1.0)]), _median([(0.0, 2.0), (5.0, 3.0)])
    (0.0, 5.0)
    """
    half = sum(weight for _, weight in values) / 2
    seen = 0.0
    for value, weight in sorted(values):
        seen += weight
        if seen >= half:
            return value
    return 0.0
