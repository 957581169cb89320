"""Run random cases: ``python -m tests.fuzz.run --cases 50000 --seed 1`` (see docs/fuzzing.md)."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from tests.delta.world import World
from tests.fuzz.cases import Case, read_case
from tests.fuzz.generate import generate
from tests.fuzz.play import Outcome, play
from tests.fuzz.tally import Tally
from tests.fuzz.work import orders, play_all

_PAUSE = 60  # seconds between two lines where there is no terminal to draw on
_CONSOLE = Console()


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the cases that the command line asks for; return the exit status."""
    options = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    if options.file:
        return _replay(read_case(options.file))
    if options.case is not None:
        return _replay(generate(seed, options.case))
    _CONSOLE.print(f"seed {seed}")
    started = time.monotonic()
    tally = _play(seed, range(options.start, options.start + options.cases), options)
    seconds = time.monotonic() - started
    tally.show(_CONSOLE)
    _CONSOLE.print(
        f"seed {seed}: {tally.cases} cases in {seconds:.0f} s,"
        f" {tally.cases / max(seconds, 1e-9):.1f}/s: {tally.line()}"
    )
    return 1 if tally.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.run", description=__doc__)
    parser.add_argument("--cases", type=int, default=500, help="how many cases")
    parser.add_argument("--start", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, help="where the cases come from; a new one if absent")
    parser.add_argument("--case", type=int, help="play this one case and show it")
    parser.add_argument("--file", type=Path, help="replay a case file and show it")
    parser.add_argument("--off", action="append", default=[], help="a feature to leave out")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--pipeline", action="store_true", help="on real PostgreSQL")
    parser.add_argument("--immediate", action="store_true", help="with IMMEDIATE stream tables")
    parser.add_argument("--writers", type=int, default=1, help="of these at a time")
    parser.add_argument("--engine", choices=("spark", "duckdb", "postgres"), default="spark")
    return parser


def _play(seed: int, numbers: range, options: argparse.Namespace) -> Tally:
    columns = ("{task.description}", BarColumn(), "{task.completed}/{task.total}")
    rate = TextColumn("{task.fields[rate]}")
    with Progress(*columns, rate, TimeRemainingColumn(), console=_CONSOLE) as progress:
        task = progress.add_task("cases", total=len(numbers), rate="")
        started = said = time.monotonic()

        def advance(tally: Tally) -> None:
            nonlocal said
            now = time.monotonic()
            speed = f"{tally.cases / (now - started):.1f}/s, {tally.line()}"
            progress.update(task, completed=tally.cases, rate=speed)
            if not _CONSOLE.is_terminal and now - said > _PAUSE:
                said = now
                _CONSOLE.print(f"{tally.cases}/{len(numbers)}: {speed}", markup=False)

        if options.pipeline:
            from tests.fuzz.pipeline import play_on_postgres

            immediate = options.immediate
            return play_on_postgres(
                seed,
                numbers,
                options.engine,
                options.off,
                advance,
                immediate=immediate,
                writers=options.writers,
            )
        return play_all(list(orders(seed, numbers, options.off)), options.jobs, advance)


def _replay(case: Case) -> int:
    world = World()
    played = play(world, case)
    world.close()
    _CONSOLE.print(case.text(), markup=False, highlight=False, soft_wrap=True)
    _CONSOLE.print(f"{played.outcome.value}: {played.reason}", markup=False)
    return 0 if played.outcome in {Outcome.HELD, Outcome.REFUSED} else 1


if __name__ == "__main__":
    sys.exit(main())
