"""``make chaos`` and ``make bench-race``: kill what can be killed; exit 1 if anything was wrong."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.chaos.events import (
    Daemons,
    kill_backend,
    kill_daemon,
    kill_jvm,
    pause_daemon,
    restart_server,
)
from tests.chaos.run import Outcome, open_bank, run
from tests.fixtures.restartable import started_server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--rate", type=float, default=50, help="transfers a second")
    parser.add_argument("--daemons", type=int, default=1)
    parser.add_argument("--daemon-kills", type=int, default=50)
    parser.add_argument("--jvm-kills", type=int, default=20)
    parser.add_argument("--backend-kills", type=int, default=100)
    parser.add_argument("--restarts", type=int, default=5, help="of the server")
    parser.add_argument("--pauses", type=int, default=0, help="of a daemon that leads")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, started_server() as server:
        log = Path(directory) / "daemons.log"
        events = [
            *[("daemon", kill_daemon)] * given.daemon_kills,
            *[("jvm", kill_jvm)] * given.jvm_kills,
            *[("backend", kill_backend)] * given.backend_kills,
            *[("restart", restart_server(server, Random(given.seed)))] * given.restarts,
            *[("pause", pause_daemon)] * given.pauses,
        ]
        _say("opening the bank")
        open_bank(server.dsn)
        daemons = Daemons(server.dsn, given.daemons, log)
        try:
            outcome = run(
                daemons,
                events,
                seconds=given.seconds,
                rate=given.rate,
                seed=given.seed,
                tell=_say,
            )
        finally:
            daemons.kill()
        _print(outcome)
        if not outcome.good:
            _say("the last lines of the daemons:")
            _say("\n".join(log.read_text(errors="replace").splitlines()[-60:]))
    return 0 if outcome.good else 1


def _say(line: str) -> None:
    print(line, flush=True)


def _print(outcome: Outcome) -> None:
    _say(f"{outcome.seconds:.0f} s, {outcome.paid:,} transfers, {dict(outcome.events)}")
    _say(f"refreshes and errors: {outcome.actions}")
    _say(f"looks: {outcome.looks:,}; wrong: {dict(outcome.wrong)}")
    for example in outcome.examples[:10]:
        _say(f"  {example}")
    _say(
        f"resumed {_times(outcome.resumed)}, without the start of Spark"
        f" {_times(outcome.resumed_alone)}; starts of Spark {_times(outcome.spark_starts)};"
        f" the very first refresh after {outcome.first_refresh:.1f} s;"
        f" not while it was waited for: {dict(outcome.never_resumed)}"
    )
    _say(f"different at the end: {outcome.different}; not active: {outcome.suspended}")
    _say(
        f"two refreshes of one stream table at a time: {outcome.overlapping};"
        f" longest time between two refreshes of one: {outcome.longest_wait:.1f} s"
    )
    _say(f"exit codes: {outcome.exit_codes}; ended by themselves: {outcome.ended_by_themselves}")


def _times(seconds: list[float]) -> str:
    if not seconds:
        return "never"
    return f"median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s"


if __name__ == "__main__":
    sys.exit(main())
