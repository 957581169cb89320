"""Choose between following the changes and recomputing in full, and say why.

The cheaper prediction wins, and DIFFERENTIAL in doubt: FULL must be predicted below ``margin``
times DIFFERENTIAL, because it reads every source and holds its snapshot longer.

**Exploring.**  The action not chosen is not measured, so a wrong prediction could last forever.
The other action is tried again when all of this holds:

    optimistic prediction of the other  <  prediction of the chosen
    price of the other, with the chosen one's correction  <=  EXPLORE_FACTOR x the prediction
    refreshes since the other last ran  >=  EXPLORE_AFTER x 2^misses

where *misses* counts the consecutive explorations that lost.  So over n refreshes there are at most
1 + log2(n / EXPLORE_AFTER) losing explorations, each expected to cost less than ``EXPLORE_FACTOR``
times a usual refresh; and an action that lost by bad luck gets its next chance after a
known number of refreshes.

**Engines.**  Each engine that may compute the refresh has its own prices, history and forecast; the
one with the least prediction for the action computes it, and the time that an engine takes to
start counts if it does not run yet.  What is known of an engine ages as long
as the other is chosen (see ``fit``), so a verdict on it does not last forever either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgtrickle.model.engine import EngineMode
from pgtrickle.model.stream_table import Action
from pgtrickle.plan.cost.fit import Observation, Prediction, predict
from pgtrickle.plan.cost.work import ENGINE_PRICES, Work, price

EXPLORE_FACTOR = 3.0
EXPLORE_AFTER = 20
_MOST_MISSES = 8
_NAMES = {EngineMode.SPARK: "Spark", EngineMode.POSTGRES: "PostgreSQL"}
_OTHER = {Action.DIFFERENTIAL: Action.FULL, Action.FULL: Action.DIFFERENTIAL}


@dataclass(frozen=True, slots=True)
class Exploration:
    """The refreshes since the action not chosen last ran, and its consecutive losses."""

    since: int = 0
    misses: int = 0

    @property
    def due(self) -> bool:
        """Whether another exploration is allowed."""
        return self.since >= EXPLORE_AFTER << min(self.misses, _MOST_MISSES)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted time of each possible action, and the choice."""

    work: Mapping[Action, Work]
    predictions: Mapping[Action, Prediction]
    favoured: Action  # by the predictions
    choice: Action  # the other one, if it is measured again
    exploration: Exploration = Exploration()
    engine: EngineMode = EngineMode.SPARK  # that would compute it
    others: tuple[Forecast, ...] = ()  # of other engines that may compute it
    start_ms: float = 0.0  # until the engine is ready

    def by_quickest(self, action: Action | None = None) -> Forecast:
        """Return the forecast of the engine that is quickest for an action, or for its own choice.

        Spark is the default: another engine has to be quicker.
        """
        every = (self, *self.others)
        best = min(every, key=lambda one: one.cost(action or one.choice))
        return replace(best, others=tuple(one for one in every if one is not best))

    def cost(self, action: Action) -> float:
        """Return the predicted time of an action until its end; any other is as much as FULL."""
        found = self.ms(action)
        return self.start_ms + (self.predictions[Action.FULL].ms if found is None else found)

    def compared(self, action: Action) -> str:
        """Tell how long the engine and the others are predicted to take; empty if it is alone."""
        if not self.others:
            return ""
        parts = [f"{_NAMES[one.engine]} {one.told(action)}" for one in self.others]
        return f"predicted {self.told(action)}, {', '.join(parts)}"

    def told(self, action: Action) -> str:
        """Write the predicted time of an action, and whether the engine starts first."""
        return in_words(self.cost(action)) + (" with its start" if self.start_ms else "")

    def ms(self, action: Action) -> float | None:
        """Return the predicted time of an action; None if it is not possible."""
        prediction = self.predictions.get(action)
        return None if prediction is None else prediction.ms

    @property
    def explores(self) -> bool:
        """Whether the action predicted to be more expensive is chosen."""
        return self.choice is not self.favoured

    @property
    def in_words(self) -> str:
        """Both predictions, as text for the recorded reason."""
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
    engine: EngineMode = EngineMode.SPARK,
    prices: Work | None = None,
    start_ms: float = 0.0,
) -> Forecast:
    """Predict the possible actions on an engine and choose one; FULL is always possible.

    ``history`` and ``exploration`` are those of the engine, and ``prices``, unless given.
    """
    prices = prices or ENGINE_PRICES[engine]
    predictions = {
        action: predict(
            price(work[action], prices), history.get(action, ()), history.get(other, ())
        )
        for action, other in _OTHER.items()
        if action in work
    }
    full, differential = predictions[Action.FULL], predictions.get(Action.DIFFERENTIAL)
    if differential is None:
        alone = Action.FULL
        return Forecast(work, predictions, alone, alone, exploration, engine, start_ms=start_ms)
    favoured = Action.FULL if full.ms < margin * differential.ms else Action.DIFFERENTIAL
    other = _OTHER[favoured]
    explores = exploration.due and _worth_trying(predictions[favoured], predictions[other])
    choice = other if explores else favoured
    return Forecast(work, predictions, favoured, choice, exploration, engine, start_ms=start_ms)


def _worth_trying(chosen: Prediction, other: Prediction) -> bool:
    price = other.price_ms * chosen.ms / chosen.price_ms
    return other.optimistic_ms < chosen.ms and price <= EXPLORE_FACTOR * chosen.ms


def after(forecast: Forecast, ran: Action, actual_ms: float) -> Exploration:
    """Return the state of exploration after a refresh.

    An exploration is lost if it took longer than the prediction of the other action.  A winner
    may be repeated at once: the first good run does not yet outweigh the prior.
    """
    before = forecast.exploration
    if ran is forecast.favoured:
        return Exploration(before.since + 1, before.misses)
    if not forecast.explores:
        return Exploration(0, before.misses)  # it ran for a reason other than its cost
    if actual_ms > forecast.predictions[forecast.favoured].ms:
        return Exploration(0, before.misses + 1)
    return Exploration(EXPLORE_AFTER, 0)


def in_words(ms: float) -> str:
    """Write a time in readable form.

    >>> [in_words(ms) for ms in (7.4, 140.2, 2345.0, 81_000.0)]
    ['7 ms', '140 ms', '2.3 s', '81 s']
    """
    if ms < 1000:
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms / 1000:.0f} s"
