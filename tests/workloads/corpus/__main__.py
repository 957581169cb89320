"""``make corpus``: analytical queries under AUTO, ten cycles, beside PostgreSQL's own answers.

Exits 1 if the run is not what the list of findings says. Names such as ``funnels`` or
``star_margin_by_maker`` choose a style or a query.
"""

from __future__ import annotations

import argparse
import sys

from tests.workloads.corpus.findings import left_out, surprises
from tests.workloads.corpus.summary import summarize
from tests.workloads.corpus.workload import CORPUS, STYLES
from tests.workloads.on_server import ENGINES, play_on_server
from tests.workloads.workload import CYCLES


def main() -> int:
    """Play the chosen queries and print what came of them; return the exit code."""
    arguments = _parser().parse_args()
    wanted = set(arguments.queries)
    chosen = [
        name
        for style, queries in STYLES.items()
        for name in queries
        if not wanted or not wanted.isdisjoint({style, name})
    ]
    if not chosen or not wanted <= {*STYLES, *CORPUS.queries}:
        print(f"no such style or query; the styles are {', '.join(STYLES)}", file=sys.stderr)
        return 2
    spared = left_out(arguments.engine)
    played = [name for name in chosen if name not in spared]
    outcomes = play_on_server(
        CORPUS, played, cycles=arguments.cycles, engine=arguments.engine, heap=arguments.heap
    )
    print(f"\n{summarize(STYLES, outcomes)}")
    for name in set(chosen) & set(spared):
        print(f"{name}: {spared[name].kind.value}: {spared[name].reason}")
    found = list(surprises(outcomes.values(), arguments.engine))
    for line in found:
        print(line)
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="corpus", description=__doc__)
    parser.add_argument("queries", nargs="*", help="styles or queries; all by default")
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    parser.add_argument("--heap", default="", help="of Spark, such as 1g")
    return parser


if __name__ == "__main__":
    sys.exit(main())
