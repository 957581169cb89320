"""Play lives, and count what was done in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from pgtrickle.errors import TrickleError
from tests.fuzz.lifecycle.grounds import Grounds, close
from tests.fuzz.lifecycle.life import DifferentError, Life, Unanswered
from tests.fuzz.play import Outcome, Played

_LENGTHS = (8, 10, 12)
# A life compares with the query as it was drawn, at the time of the server.
_LEFT_OUT = ("time", "aggregate.open", "json")
STEPS = {
    "write": 6,
    "refresh": 4,
    "save": 3,
    "restore": 4,
    "drop_saved": 1,
    "alter": 2,
    "alter_mode": 1,
    "begin_shadow": 2,
    "dump": 2,
    "move": 1,
}
BESIDE_A_SHADOW = {"promote": 6, "cancel": 1, "follow": 1, "compare": 2}


@dataclass(slots=True)
class Lived:
    """What came of a life."""

    played: Played
    told: list[str] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)


def live(grounds: Grounds, seed: int, number: int, off: Collection[str] = ()) -> Lived:
    """Play one life; a query that has no answer is followed by another."""
    for attempt in range(20):
        try:
            life = Life.begin(grounds, f"{seed}:life:{number}:{attempt}", (*off, *_LEFT_OUT))
        except Unanswered:
            grounds.drop()
            continue
        except DifferentError as difference:
            return Lived(Played(Outcome.DIFFERS, f"the first load: {difference}"))
        return _go_through(life)
    return Lived(Played(Outcome.REFUSED, "no query that can be maintained"))


def _go_through(life: Life) -> Lived:
    steps: Counter[str] = Counter()
    try:
        for _ in range(life.draw.choice(_LENGTHS)):
            possible = STEPS | (BESIDE_A_SHADOW if life.shadow is not None else {})
            [step] = life.draw.choices(list(possible), list(possible.values()))
            steps[step] += 1
            getattr(life, step)()
        life.refresh()
        life.verify()
        played = Played(Outcome.HELD)
    except Unanswered as error:
        played = Played(Outcome.UNANSWERED, str(error))
    except DifferentError as difference:
        played = Played(Outcome.DIFFERS, str(difference))
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        played = Played(Outcome.CRASHED, _describe(error))
    finally:
        close(life.lab)
        life.grounds.drop()
    return Lived(played, life.told, steps)


def _describe(error: Exception) -> str:
    detail = error.detail if isinstance(error, TrickleError) else ""
    return f"{type(error).__name__}: {error} {detail}".strip()
