"""``make relay-chaos``: a consumer must hold the stream table, whatever died; exit 1 if not."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.relay.chaos.brokers import BROKERS
from tests.relay.chaos.run import Plan, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.relay.chaos", description=__doc__)
    parser.add_argument("--broker", choices=BROKERS, default="kafka")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--kills", type=int, default=50, help="of the relay")
    parser.add_argument("--restarts", type=int, default=5, help="of the broker")
    parser.add_argument("--cuts", type=int, default=20, help="of all connections to the broker")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    plan = Plan(given.seconds, given.kills, given.restarts, given.cuts, given.seed)
    broker = BROKERS[given.broker]
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        outcome = run(broker, plan, Path(directory))
    verdict = outcome.verdict
    found = {
        "broker": given.broker,
        "seconds": given.seconds,
        "refreshes": outcome.refreshes,
        "relay killed": outcome.done["kill"],
        "broker restarted": outcome.done["restart"],
        "connections cut": outcome.done["cut"],
        "messages": verdict.messages,
        "duplicates": verdict.duplicates,
        "out of order per key": verdict.out_of_order,
        "lost rows": verdict.lost,
        "extra rows": verdict.extra,
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(found, indent=2))
    return 0 if verdict.good(exact=broker.exact) else 1


if __name__ == "__main__":
    sys.exit(main())
