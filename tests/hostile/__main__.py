"""``make hostile``: attackers beside writers and a daemon; exit 1 if anybody came to harm."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.events import Daemons
from tests.fixtures.restartable import started_server
from tests.hostile.run import Outcome, await_freshness, run, settle
from tests.hostile.town import open_town

_FIRST_REFRESH_SECONDS = 180.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--rate", type=float, default=50, help="transfers a second")
    parser.add_argument("--longest", type=float, default=30, help="seconds a table may be stale")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="where the lines of the daemon are kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, started_server() as server:
        log = given.log or Path(directory) / "daemon.log"
        _say("opening the town")
        town = open_town(server.dsn)
        daemons = Daemons(town.dsn_of("keeper"), 1, log)
        try:
            daemons.start()
            # Spark's start is not counted: it begins when the daemon has looked at every table.
            await_freshness(town, _FIRST_REFRESH_SECONDS)
            outcome = run(town, seconds=given.seconds, rate=given.rate, seed=given.seed, tell=_say)
            settle(town, outcome)
            codes = daemons.stop() + daemons.ended_by_themselves
        finally:
            daemons.kill()
        complaints = outcome.complaints(given.longest)
        if any(codes):
            complaints.append(f"exit codes of the daemon: {codes}")
        _print(outcome, complaints)
        if complaints:
            _say("the last lines of the daemon:")
            _say("\n".join(log.read_text(errors="replace").splitlines()[-60:]))
    return 1 if complaints else 0


def _say(line: str) -> None:
    print(line, flush=True)


def _print(outcome: Outcome, complaints: list[str]) -> None:
    _say(
        f"{outcome.seconds:.0f} s, {outcome.paid:,} transfers, {len(outcome.failed_writes)} failed,"
        f" the slowest {outcome.slowest_write:.2f} s"
    )
    _say(f"looks: {outcome.looks:,}; wrong: {dict(outcome.wrong)}")
    _say(f"attacks: {outcome.attacks.total()}: {dict(outcome.attacks.most_common())}")
    stalest = max(outcome.stalest.values(), default=0.0)
    _say(f"the stalest stream table of the bank: {stalest:.1f} s")
    _say(f"done with the rights of others: {outcome.stolen}")
    _say("\n".join(complaints) or "nobody came to harm")


if __name__ == "__main__":
    sys.exit(main())
