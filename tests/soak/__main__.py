"""``make soak``: the long run, with figures at the end; exit 1 if a row was lost or came twice."""

from __future__ import annotations

import argparse
import sys

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.postgres import enterable_directory
from tests.soak.run import LEASE_SECONDS, Outcome, soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--transactions", type=int, default=200_000)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-every", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--engine", choices=("duckdb", "spark"), default="duckdb")
    given = parser.parse_args()
    engine = DuckDbEngine() if given.engine == "duckdb" else None
    with (
        enterable_directory() as directory,
        start_embedded(directory / "home") as server,
        pgtrickle.connect(
            server.dsn,
            engine=engine,
            settings=load_settings(lease_seconds=LEASE_SECONDS),
            init=True,
        ) as trickle,
    ):
        outcome = soak(
            trickle,
            transactions=given.transactions,
            points=given.points,
            seed=given.seed,
            kill_every=given.kill_every,
            tell=lambda line: print(line, flush=True),
        )
    _print(outcome)
    return 1 if outcome.lost or outcome.twice else 0


def _print(outcome: Outcome) -> None:
    total = sum(outcome.transactions.values())
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in outcome.transactions.most_common())
    print(f"transactions: {total:,} in {outcome.seconds:.0f} s ({kinds})")
    print(f"refreshes: {dict(outcome.actions)}; repeated after an error: {dict(outcome.retried)}")
    print(f"connections killed: {outcome.kills:,}")
    print(
        f"compared: {outcome.compared:,} times, at {outcome.points} points, the last two at the end"
    )
    print(f"lost: {outcome.lost}, twice: {outcome.twice}")


if __name__ == "__main__":
    sys.exit(main())
