"""``make workloads``: TPC-H and Nexmark, ten cycles on Spark, beside PostgreSQL's own answers.

Exits 1 if any query is refused, fails or differs. Names such as ``tpch/q05`` or ``nexmark`` choose
a part of it.
"""

from __future__ import annotations

import argparse
import sys

from tests.workloads.nexmark.workload import NEXMARK
from tests.workloads.on_server import ENGINES, play_on_server
from tests.workloads.summary import summarize
from tests.workloads.tpch.workload import TPCH
from tests.workloads.workload import CYCLES, Workload

_WORKLOADS = (TPCH, NEXMARK)


def main() -> int:
    """Play the chosen queries and print a table; return the exit code."""
    arguments = _parser().parse_args()
    chosen = {
        workload.name: [name for name in workload.queries if _wanted(arguments, workload, name)]
        for workload in _WORKLOADS
    }
    if not any(chosen.values()):
        print("no query has such a name; write tpch/q05 or nexmark", file=sys.stderr)
        return 2
    played = {
        workload.name: play_on_server(
            workload, chosen[workload.name], cycles=arguments.cycles, engine=arguments.engine
        )
        for workload in _WORKLOADS
        if chosen[workload.name]
    }
    for name, outcomes in played.items():
        print(f"\n{summarize(name, outcomes.values())}")
    everything = [outcome for outcomes in played.values() for outcome in outcomes.values()]
    equal = sum(outcome.failure is None for outcome in everything)
    print(f"\n{equal} of {len(everything)} queries equal to PostgreSQL after every cycle")
    return 0 if equal == len(everything) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="workloads", description=__doc__)
    parser.add_argument("queries", nargs="*", help="such as tpch/q05 or nexmark; all by default")
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--engine", choices=ENGINES, default="spark")
    return parser


def _wanted(arguments: argparse.Namespace, workload: Workload, query: str) -> bool:
    names = {workload.name, f"{workload.name}/{query}"}
    return not arguments.queries or not names.isdisjoint(arguments.queries)


if __name__ == "__main__":
    sys.exit(main())
