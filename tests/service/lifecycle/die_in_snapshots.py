"""A process that takes or restores a snapshot and is killed at a named step of that.

python -m tests.service.lifecycle.die_in_snapshots DSN STEP NAME SNAPSHOT
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pgtrickle
from pgtrickle.service import claim
from pgtrickle.service.lifecycle.snapshots import drop, restore, take
from pgtrickle.service.refreshing import commit
from pgtrickle.settings import load_settings
from pgtrickle.storage import snapshot_copies
from tests.fakes.engine import DuckDbEngine

# By name: whose attribute is called, which, and whether the process dies before or after it.
TAKE_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the copy": (take, "copy_rows", True),
    "after the copy": (take, "copy_rows", False),
    "with the entry": (take, "insert_snapshot", False),
    "before the state": (take, "copy_state", True),
    "after the state": (take, "copy_state", False),
    "before the commit": (take, "check_lease", False),
    "after the commit": (take, "until_free", False),
    "with the lease given back": (claim, "release_lease", False),
}
RESTORE_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the locks": (restore, "lock_buffers", True),
    "with the locks": (restore, "hold_safe_table", False),
    "before the rows": (restore, "replace_contents", True),
    "after the rows": (restore, "replace_contents", False),
    "with half of the state": (snapshot_copies, "indexed_afterwards", False),
    "after the state": (restore, "restore_state", False),
    "with the frontier": (commit, "update_frontier", False),
    "before the gaps": (restore, "adopt_snapshot_gaps", True),
    "before the commit": (restore, "adopt_snapshot_gaps", False),
    "after the commit": (restore, "until_free", False),
    "with the lease given back": (claim, "release_lease", False),
}
DROP_STEPS: dict[str, tuple[Any, str, bool]] = {
    "with the entry gone": (drop, "delete_snapshot", False),
    "with the state gone": (drop, "drop_state_copies", False),
    "after the commit": (drop, "until_free", False),
}
KINDS = {"take": TAKE_STEPS, "restore": RESTORE_STEPS, "drop": DROP_STEPS}


def dying(call: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    """Return a function that dies before it does what another does, or after it."""

    def called(*arguments: Any, **named: Any) -> Any:
        if not before:
            call(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return called


def main(dsn: str, kind: str, step: str, name: str, snapshot: str) -> None:
    """Do what is asked for, and die at the step."""
    owner, attribute, before = KINDS[kind][step]
    setattr(owner, attribute, dying(getattr(owner, attribute), before=before))
    settings = load_settings({}, dsn=dsn, lease_seconds=1, snapshot_keeps_changes=True)
    with pgtrickle.connect(dsn, engine=DuckDbEngine(), settings=settings) as trickle:
        verbs = trickle.snapshots
        if kind == "take":
            verbs.snapshot_stream_table(name, snapshot)
        elif kind == "restore":
            verbs.restore_from_snapshot(name, snapshot)
        else:
            verbs.drop_snapshot(snapshot)
    raise AssertionError(f"the step was not reached: {kind} {step}")


if __name__ == "__main__":
    main(*sys.argv[1:])
