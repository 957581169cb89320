"""Correct the price of an action by its earlier times: a log-linear fit.

For each refresh of the past that ran this action, let x = ln(price of its work) and
r = ln(time it took) - x.  The fit is the line  r = a + b (x - x0)  through these points, where x0
belongs to the present refresh; so e^a is the error of the price there, and 1 + b is the
slope of ln(time) over ln(price).

    prediction  =  price x e^a

* **The prior takes part** as three points of weight ``PRIOR_WEIGHT``, at x0 and a factor of ten
  on either side, with r = half of the centre of the *other* action: a slow machine is
  slow for both.  Without any history the prediction is the price.
* **Evidence ages.**  A point counts half as much after ``OWN_HALF_LIFE`` later refreshes of its
  action, so that a change is followed, and after ``HALF_LIFE`` refreshes of any action, so that an
  action long not taken falls back to the prior.
* **No point pulls far.**  The line starts at the weighted median, and points further than
  ``REACH`` from it are moved to that distance before the next pass (winsorized).  So a run that
  took a hundred times as long counts as one that took twice as long.

``spread`` is the uncertainty of a, as a standard deviation of ln(time): ``PRIOR_SPREAD`` without
evidence, less with it, and half of the way back after ``SURE_FOR`` refreshes of any action.  It
grows much sooner than the prediction moves: an action not taken becomes worth an exploration, which
is bounded (see ``choose``), before it becomes the better one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

PRIOR_WEIGHT = 0.4
PRIOR_SPREAD = log(2.0)
OWN_HALF_LIFE = 4.0
HALF_LIFE = 64.0
SURE_FOR = 8.0
REACH = log(2.0)
_DISTANCE = log(10.0)
_PASSES = 4
_SHARED = 0.5


@dataclass(frozen=True, slots=True)
class Observation:
    """One earlier refresh: its price, its time, and its age in refreshes."""

    price_ms: float
    actual_ms: float
    age: int

    @property
    def residual(self) -> float:
        """The error of the price, as a logarithm."""
        return log(max(self.actual_ms, 0.1)) - log(max(self.price_ms, 0.1))


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted time of an action, and its uncertainty."""

    price_ms: float
    ms: float
    spread: float

    @property
    def optimistic_ms(self) -> float:
        """The optimistic time."""
        return self.ms * exp(-self.spread)


@dataclass(frozen=True, slots=True)
class _Point:
    x: float  # from x0
    r: float
    weight: float
    fresh: float  # its weight for the uncertainty


def predict(
    price_ms: float, own: Sequence[Observation], other: Sequence[Observation] = ()
) -> Prediction:
    """Predict the time of an action from its price, its own past and that of the other action."""
    x0 = log(max(price_ms, 0.1))
    belief = _SHARED * _centre(_points(other, x0))
    prior = [_Point(x, belief, PRIOR_WEIGHT, PRIOR_WEIGHT) for x in (-_DISTANCE, 0.0, _DISTANCE)]
    points = prior + _points(own, x0)
    spread = PRIOR_SPREAD * min(1.0, sqrt(_variance(points) * 3 * PRIOR_WEIGHT))
    return Prediction(price_ms, price_ms * exp(_intercept(points)), spread)


def _points(observations: Sequence[Observation], x0: float) -> list[_Point]:
    ordered = sorted(observations, key=lambda one: one.age)
    return [
        _Point(
            log(max(one.price_ms, 0.1)) - x0,
            one.residual,
            0.5 ** (later / OWN_HALF_LIFE + one.age / HALF_LIFE),
            0.5 ** (one.age / SURE_FOR),
        )
        for later, one in enumerate(ordered)
    ]


def _intercept(points: Sequence[_Point]) -> float:
    """Return where the line crosses x0: weighted least squares of points within reach of it."""
    w = sum(point.weight for point in points)
    wx = sum(point.weight * point.x for point in points)
    wxx = sum(point.weight * point.x**2 for point in points)
    determinant = w * wxx - wx**2  # positive: the prior's points lie apart
    intercept, slope = _median([(point.r, point.weight) for point in points]), 0.0
    for _ in range(_PASSES):
        wr = wxr = 0.0
        for point in points:
            expected = intercept + slope * point.x
            moved = point.weight * min(max(point.r, expected - REACH), expected + REACH)
            wr += moved
            wxr += moved * point.x
        intercept, slope = (
            (wxx * wr - wx * wxr) / determinant,
            (w * wxr - wx * wr) / determinant,
        )
    return intercept


def _variance(points: Sequence[_Point]) -> float:
    """Return the variance of the intercept, if a point of weight one has variance one."""
    w = sum(point.fresh for point in points)
    wx = sum(point.fresh * point.x for point in points)
    wxx = sum(point.fresh * point.x**2 for point in points)
    return wxx / (w * wxx - wx**2)


def _centre(points: Sequence[_Point]) -> float:
    """Return the centre of an action's residuals, shrunk to zero if there are few."""
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
