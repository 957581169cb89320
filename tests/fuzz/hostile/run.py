"""Judge hostile texts: ``python -m tests.fuzz.hostile.run --cases 50000 --seed 1``."""

from __future__ import annotations

import argparse
import faulthandler
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from tests.fuzz.hostile.judge import Judged, Verdict, judge
from tests.fuzz.hostile.pool import create_tables
from tests.fuzz.hostile.shrink import shrink
from tests.fuzz.hostile.texts import HostileText, draw_text, read_text
from tests.fuzz.pipeline import open_lab
from tests.labs.lab import Lab

KEPT = Path(__file__).parent / "kept"
_HANGS = 180  # seconds on the clock for one text: then the stack is printed, and the run ends
_BYTES = 6 << 30
_EVERY = 1000
_MILLISECONDS = 10_000
_CONSOLE = Console()


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the texts that the command line asks for; return the exit status."""
    options = _parser().parse_args(arguments)
    seed = random.SystemRandom().randrange(10**9) if options.seed is None else options.seed
    # Neither this process nor a backend of its server may take the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    with open_lab("duckdb") as lab, hostile_lab(lab):
        if options.file:
            return _show(lab, read_text(options.file))
        if options.case is not None:
            return _show(lab, draw_text(seed, options.case))
        _CONSOLE.print(f"seed {seed}")
        numbers = range(options.start, options.start + options.cases)
        return _judge_all(lab, seed, numbers, options.shrunk)


@contextmanager
def hostile_lab(lab: Lab) -> Iterator[Lab]:
    """Make the tables, and give a compilation less time than users have."""
    create_tables(lab)
    runtime = lab.trickle._runtime
    usual = runtime.settings
    runtime.settings = replace(usual, compile_timeout_ms=_MILLISECONDS)
    try:
        yield lab
    finally:
        runtime.settings = usual


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.hostile.run", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many texts")
    parser.add_argument("--start", type=int, default=0, help="the number of the first text")
    parser.add_argument("--seed", type=int, help="where the texts come from; a new one if absent")
    parser.add_argument("--shrunk", type=int, default=10, help="how many failures to make smaller")
    parser.add_argument("--case", type=int, help="judge this one text and show it")
    parser.add_argument("--file", type=Path, help="judge a kept text and show it")
    return parser


def _judge_all(lab: Lab, seed: int, numbers: range, most_shrunk: int) -> int:
    counts: Counter[tuple[Verdict, str]] = Counter()
    failures = 0
    slowest = (0.0, 0)
    started = time.monotonic()
    for done, number in enumerate(numbers, 1):
        text = draw_text(seed, number)
        faulthandler.dump_traceback_later(_HANGS, exit=True)
        judged = judge(lab, text)
        faulthandler.cancel_dump_traceback_later()
        counts[judged.verdict, judged.reason if not judged.verdict.failure else ""] += 1
        slowest = max(slowest, (judged.seconds, number))
        if judged.verdict.failure:
            failures += 1
            _report(lab, seed, number, text, judged, keep=failures <= most_shrunk)
        if done % _EVERY == 0 or done == len(numbers):
            by_verdict: Counter[str] = Counter()
            for (verdict, _), count in counts.items():
                by_verdict[verdict.value] += count
            line = ", ".join(f"{count} {name}" for name, count in by_verdict.most_common())
            rate = done / (time.monotonic() - started)
            _CONSOLE.print(f"{done}/{len(numbers)}, {rate:.0f}/s: {line}", markup=False)
    for (verdict, reason), count in counts.most_common():
        _CONSOLE.print(f"{count:7} {verdict.value}: {reason}", markup=False, highlight=False)
    _CONSOLE.print(f"seed {seed}; slowest: text {slowest[1]}, {slowest[0]:.1f} s of own work")
    return 1 if failures else 0


def _report(
    lab: Lab, seed: int, number: int, text: HostileText, judged: Judged, *, keep: bool
) -> None:
    print(f"text {number} of seed {seed} {judged.verdict.value}: {judged.reason}", flush=True)
    if keep:
        small = shrink(text, judged, lambda one: judge(lab, one))
        path = KEPT / f"{seed}-{number}.json"
        path.write_text(small.text())
        print(f"  replay: make fuzz-hostile FILE={path}\n  {small.sql[:1000]!r}", flush=True)


def _show(lab: Lab, text: HostileText) -> int:
    _CONSOLE.print(text.text(), markup=False, highlight=False, soft_wrap=True)
    judged = judge(lab, text)
    _CONSOLE.print(f"{judged.verdict.value}: {judged.reason}", markup=False, soft_wrap=True)
    _CONSOLE.print(f"{judged.seconds:.2f} s of own work")
    return 1 if judged.verdict.failure else 0


if __name__ == "__main__":
    sys.exit(main())
