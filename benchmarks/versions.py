"""Small refreshes and capture in this checkout beside another revision, in turns.

    python -m benchmarks.versions --base REVISION [--rounds N]

Each version is a process of its own with a database and a Spark of its own, on one server.  They
are asked in turns (A B, then B A), so that what else the machine does falls on both alike; the
figures are medians, and the ratio is the median over the pairs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import psycopg

from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.shop import create_database
from pgtrickle.embedded.server import start_embedded

_ROOT = Path(__file__).parents[1]
_WORKER = Path(__file__).with_name("versions_worker.py")


class _Version:
    """A process with the sources of one version."""

    def __init__(self, sources: Path, dsn: str) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - no shell
            [sys.executable, str(_WORKER), dsn],
            env={**os.environ, "PYTHONPATH": str(sources)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, what: str) -> dict[str, float]:
        print(what, file=self.process.stdin, flush=True)
        found: dict[str, float] = json.loads(self.answer())
        return found

    def answer(self) -> str:
        line = next(iter(self.process.stdout or ()), "")
        if not line:
            raise RuntimeError("a version ended before its time")
        return line

    def end(self) -> None:
        self.process.communicate(timeout=60)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table as Markdown."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=150, help="pairs of refreshes")
    parser.add_argument("--warm-up", type=int, default=60, help="refreshes before they count")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        base = Path(directory) / "base"
        _worktree("add", "--detach", str(base), arguments.base)
        try:
            with start_embedded(Path(directory) / "server") as server:
                dsns = [create_database(server.dsn, name) for name in ("before", "now")]
                both = [
                    _Version(sources / "src", dsn)
                    for sources, dsn in zip((base, _ROOT), dsns, strict=True)
                ]
                for version in both:
                    version.answer()
                rows = _measure(both, arguments.rounds, arguments.warm_up)
                for version in both:
                    version.end()
                with psycopg.connect(server.dsn) as connection:
                    results = describe_run(
                        "benchmarks.versions",
                        argv,
                        connection,
                        title=f"This version beside {arguments.base}",
                        tables=[
                            {
                                "columns": ["what", "before, ms", "now, ms", "now / before"],
                                "rows": rows,
                            }
                        ],
                        notes=["Ratios are medians over pairs that were measured in turns."],
                    )
        finally:
            _worktree("remove", "--force", str(base))
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0


def _worktree(*arguments: str) -> None:
    command = ["git", "-C", str(_ROOT), "worktree", *arguments]
    subprocess.run(command, check=True)  # noqa: S603 - no shell


def _measure(both: list[_Version], rounds: int, warm_up: int) -> list[list[object]]:
    pairs: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for what, least, times in (("refresh", warm_up, rounds), ("capture", 3, rounds // 5)):
        for number in range(least + times):
            order = [0, 1] if number % 2 else [1, 0]
            found = {which: both[which].ask(what) for which in order}
            if number >= least:
                for name in found[0].keys() & found[1].keys():
                    pairs[name].append((found[0][name], found[1][name]))
            if number % 25 == 0:
                say(f"{what}: {number} of {least + times}")
    return [
        [
            name,
            round(statistics.median(before for before, _ in found), 2),
            round(statistics.median(now for _, now in found), 2),
            round(statistics.median(now / before for before, now in found if before), 3),
        ]
        for name, found in sorted(pairs.items())
    ]


if __name__ == "__main__":
    sys.exit(main())
