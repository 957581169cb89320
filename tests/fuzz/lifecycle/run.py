"""Play random lives: ``python -m tests.fuzz.lifecycle.run --cases 300 --seed 1``."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.fuzz.lifecycle.grounds import Grounds, open_grounds
from tests.fuzz.lifecycle.play import Lived, live
from tests.fuzz.play import Outcome
from tests.fuzz.servers import ENGINES

_PAUSE = 30  # seconds between two lines where there is no terminal to draw on
_CONSOLE = Console()


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the lives that the command line asks for; return the exit status."""
    options = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    with open_grounds(options.engine) as grounds:
        if options.case is not None:
            lived = live(grounds, seed, options.case, options.off)
            _show(seed, options.case, lived)
            return int(lived.played.outcome.failure)
        _CONSOLE.print(f"seed {seed}")
        return _play(grounds, seed, range(options.start, options.start + options.cases), options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.lifecycle.run", description=__doc__)
    parser.add_argument("--cases", type=int, default=300, help="how many lives")
    parser.add_argument("--start", type=int, default=0, help="the number of the first life")
    parser.add_argument("--seed", type=int, help="where the lives come from; a new one if absent")
    parser.add_argument("--case", type=int, help="play this one life and show it")
    parser.add_argument("--off", action="append", default=[], help="a feature to leave out")
    parser.add_argument("--engine", choices=ENGINES, default="postgres")
    return parser


def _play(grounds: Grounds, seed: int, numbers: range, options: argparse.Namespace) -> int:
    outcomes: Counter[Outcome] = Counter()
    steps: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    columns = ("lives", BarColumn(), "{task.completed}/{task.total}")
    rate = TextColumn("{task.fields[rate]}")
    with Progress(*columns, rate, TimeRemainingColumn(), console=_CONSOLE) as progress:
        task = progress.add_task("lives", total=len(numbers), rate="")
        started = said = time.monotonic()
        for done, number in enumerate(numbers, 1):
            lived = live(grounds, seed, number, options.off)
            outcomes[lived.played.outcome] += 1
            steps += lived.steps
            if lived.played.outcome.failure:
                _show(seed, number, lived)
            elif lived.played.reason:
                reasons[f"{lived.played.outcome.value}: {lived.played.reason}"] += 1
            now = time.monotonic()
            line = ", ".join(f"{count} {one.value}" for one, count in outcomes.items())
            progress.update(
                task, completed=done, rate=f"{(now - started) / done:.1f} s each, {line}"
            )
            if not _CONSOLE.is_terminal and now - said > _PAUSE:
                said = now
                _CONSOLE.print(f"{done}/{len(numbers)}: {line}", markup=False)
    for reason, count in reasons.most_common():
        _CONSOLE.print(f"{count:7} {reason}", markup=False, highlight=False)
    told = ", ".join(f"{count} {step}" for step, count in steps.most_common())
    _CONSOLE.print(f"steps: {told}", markup=False, soft_wrap=True)
    seconds = time.monotonic() - started
    _CONSOLE.print(f"seed {seed}: {outcomes.total()} lives in {seconds:.0f} s: {line}")
    return 1 if any(one.failure for one in outcomes) else 0


def _show(seed: int, number: int, lived: Lived) -> None:
    for one in lived.told:
        _CONSOLE.print(f"- {one}", markup=False, highlight=False, soft_wrap=True)
    played = lived.played
    _CONSOLE.print(f"life {number} {played.outcome.value}: {played.reason}", markup=False)
    _CONSOLE.print(f"  again: make fuzz-lifecycle SEED={seed} CASE={number}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
