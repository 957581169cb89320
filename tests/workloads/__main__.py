"""``make workloads``: TPC-H and Nexmark, ten cycles on Spark, beside PostgreSQL's own answers.

Exits 1 if any query is refused, fails or differs. Names such as ``tpch/q05`` or ``nexmark`` choose
a part of it.
"""

from __future__ import annotations

import argparse
import sys
import time

import psycopg

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.ports import Engine
from pgtrickle.settings import Settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.postgres import enterable_directory
from tests.workloads.nexmark.workload import NEXMARK
from tests.workloads.play import Outcome, play
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
        workload.name: _play(workload, chosen[workload.name], arguments)
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
    parser.add_argument("--engine", choices=("spark", "duckdb"), default="spark")
    return parser


def _wanted(arguments: argparse.Namespace, workload: Workload, query: str) -> bool:
    names = {workload.name, f"{workload.name}/{query}"}
    return not arguments.queries or not names.isdisjoint(arguments.queries)


def _play(workload: Workload, only: list[str], arguments: argparse.Namespace) -> dict[str, Outcome]:
    engine: Engine | None = DuckDbEngine() if arguments.engine == "duckdb" else None
    with (
        enterable_directory() as directory,
        start_embedded(directory / "home") as server,
        pgtrickle.connect(server.dsn, engine=engine, settings=Settings()) as trickle,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        return play(trickle, connection, workload, cycles=arguments.cycles, only=only, say=_say)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
