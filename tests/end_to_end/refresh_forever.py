"""A process to be killed: refreshes stream tables one after another until it dies."""

from __future__ import annotations

import sys
import time

import pgtrickle
from pgtrickle.errors import LeaseHeldError, LeaseLostError
from tests.fakes.engine import DuckDbEngine


def main(dsn: str, engine: str, names: list[str]) -> None:
    """Print the action of every refresh; a lease that a dead rival left is waited for."""
    chosen = DuckDbEngine() if engine == "duckdb" else None
    with pgtrickle.connect(dsn, engine=chosen) as trickle:
        while True:
            for name in names:
                try:
                    report = trickle.refresh_stream_table(name)
                except (LeaseHeldError, LeaseLostError):
                    time.sleep(0.05)
                    continue
                print(name, report.action.value, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
