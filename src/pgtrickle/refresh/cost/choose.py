"""Choose between following the changes and recomputing in full, and say why.

The cheaper prediction wins, and DIFFERENTIAL in doubt: FULL must be predicted below ``margin``
times DIFFERENTIAL, because it reads every source and holds its snapshot longer.

**Exploring.**  What was not chosen is not measured, so a wrong prediction could stand for ever.
The other action is tried again when all of this holds:

    optimistic prediction of the other  <  prediction of the chosen
    price of the other, with the chosen one's correction  <=  EXPLORE_FACTOR x the prediction
    refreshes since the other last ran  >=  EXPLORE_AFTER x 2^misses

where *misses* counts the trials in a row that lost.  So over n refreshes there are at most
1 + log2(n / EXPLORE_AFTER) trials that lose, each expected to cost less than ``EXPLORE_FACTOR``
times a usual refresh; and an action that lost by bad luck gets its next chance after a
known number of refreshes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgtrickle.model.stream_table import Action
from pgtrickle.refresh.cost.fit import Observation, Prediction, predict
from pgtrickle.refresh.cost.work import PRICES, Work, price

EXPLORE_FACTOR = 3.0
EXPLORE_AFTER = 20
_MOST_MISSES = 8
_OTHER = {Action.DIFFERENTIAL: Action.FULL, Action.FULL: Action.DIFFERENTIAL}


@dataclass(frozen=True, slots=True)
class Exploration:
    """How long the action not chosen has not run, and how often in a row trying it lost."""

    since: int = 0
    misses: int = 0

    @property
    def due(self) -> bool:
        """Whether trying again is allowed."""
        return self.since >= EXPLORE_AFTER << min(self.misses, _MOST_MISSES)


@dataclass(frozen=True, slots=True)
class Forecast:
    """What each possible action would take, and which to run."""

    work: Mapping[Action, Work]
    predictions: Mapping[Action, Prediction]
    favoured: Action  # by the predictions
    choice: Action  # the other one where that is to be measured again
    exploration: Exploration = Exploration()

    def ms(self, action: Action) -> float | None:
        """Return the time predicted for an action; None where it is not possible."""
        prediction = self.predictions.get(action)
        return None if prediction is None else prediction.ms

    @property
    def explores(self) -> bool:
        """Whether an action is tried although the other is predicted to be cheaper."""
        return self.choice is not self.favoured

    @property
    def in_words(self) -> str:
        """Both predictions, for the reason that goes on record."""
        first, *others = (
            f"{action.value} {'' if number else 'predicted '}{in_words(prediction.ms)}"
            for number, (action, prediction) in enumerate(self.predictions.items())
        )
        words = ", ".join([first, *others])
        if self.explores:
            words += f"; {self.choice.value} is tried again to measure it"
        return words


History = Mapping[Action, Sequence[Observation]]


def choose(
    work: Mapping[Action, Work],
    history: History,
    exploration: Exploration = Exploration(),  # noqa: B008 - a frozen value
    *,
    margin: float,
    prices: Work = PRICES,
) -> Forecast:
    """Predict the actions that are possible and choose one; FULL always is."""
    predictions = {
        action: predict(
            price(work[action], prices), history.get(action, ()), history.get(other, ())
        )
        for action, other in _OTHER.items()
        if action in work
    }
    full, differential = predictions[Action.FULL], predictions.get(Action.DIFFERENTIAL)
    if differential is None:
        return Forecast(work, predictions, Action.FULL, Action.FULL, exploration)
    favoured = Action.FULL if full.ms < margin * differential.ms else Action.DIFFERENTIAL
    other = _OTHER[favoured]
    explores = exploration.due and _worth_trying(predictions[favoured], predictions[other])
    return Forecast(work, predictions, favoured, other if explores else favoured, exploration)


def _worth_trying(chosen: Prediction, other: Prediction) -> bool:
    price = other.price_ms * chosen.ms / chosen.price_ms
    return other.optimistic_ms < chosen.ms and price <= EXPLORE_FACTOR * chosen.ms


def after(forecast: Forecast, ran: Action, actual_ms: float) -> Exploration:
    """Return what to remember of exploring when a refresh has run.

    A trial is lost if it took longer than the other action was predicted to take.  One that won
    may be repeated at once: the first good run does not yet outweigh the prior.
    """
    before = forecast.exploration
    if ran is forecast.favoured:
        return Exploration(before.since + 1, before.misses)
    if not forecast.explores:
        return Exploration(0, before.misses)  # it ran for another reason than its cost
    if actual_ms > forecast.predictions[forecast.favoured].ms:
        return Exploration(0, before.misses + 1)
    return Exploration(EXPLORE_AFTER, 0)


def in_words(ms: float) -> str:
    """Write a time as people read it.

    >>> [in_words(ms) for ms in (7.4, 140.2, 2345.0, 81_000.0)]
    ['7 ms', '140 ms', '2.3 s', '81 s']
    """
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:.0f} s"
