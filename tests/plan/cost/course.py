"""Refreshes of one stream table, with a known true cost, as the cost model lives through them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pgtrickle.model.stream_table import Action
from pgtrickle.plan.cost.choose import Exploration, Forecast, after, choose
from pgtrickle.plan.cost.fit import Observation
from pgtrickle.plan.cost.work import Work

DIFFERENTIAL, FULL = Action.DIFFERENTIAL, Action.FULL
UNIT = Work(refreshes=1.0)  # as a price list: a millisecond for each "refresh"
MARGIN = 0.9
_KEPT = 24  # measurements of each action

Costs = dict[Action, float]


def work_of(price_ms: float) -> Work:
    """Make work of a known price."""
    return Work(refreshes=price_ms)


@dataclass(slots=True)
class Course:
    """The history of one stream table."""

    measured: dict[Action, deque[tuple[int, float, float]]] = field(
        default_factory=lambda: {one: deque(maxlen=_KEPT) for one in (DIFFERENTIAL, FULL)}
    )
    refreshes: int = 0
    exploration: Exploration = field(default_factory=Exploration)

    def forecast(self, price: Costs) -> Forecast:
        """Predict the next refresh."""
        kept = {
            action: [
                Observation(price_ms, actual_ms, self.refreshes - number)
                for number, price_ms, actual_ms in found
            ]
            for action, found in self.measured.items()
        }
        work = {action: work_of(ms) for action, ms in price.items()}
        return choose(work, kept, self.exploration, margin=MARGIN, prices=UNIT)

    def refresh(self, price: Costs, actual: Costs, action: Action | None = None) -> Forecast:
        """Run the chosen action, or a given one, and measure it."""
        forecast = self.forecast(price)
        ran = action or forecast.choice
        self.refreshes += 1
        self.measured[ran].append((self.refreshes, price[ran], actual[ran]))
        self.exploration = after(forecast, ran, actual[ran])
        return forecast

    def play(
        self, number: int, price: Costs, actual: Costs, noise: Callable[[], float] = lambda: 1.0
    ) -> list[Forecast]:
        """Refresh several times at the same price and true cost, give or take noise."""
        return [
            self.refresh(price, {action: ms * noise() for action, ms in actual.items()})
            for _ in range(number)
        ]
