"""A process that goes on with a shadow build and is killed at a named step of that.

python -m tests.service.lifecycle.die_in_shadows DSN KIND STEP NAME QUERY
"""

from __future__ import annotations

import sys
from typing import Any

import pgtrickle
from pgtrickle.service.lifecycle.replacing import replacement
from pgtrickle.service.lifecycle.shadows import advance, cancel, promote, start
from pgtrickle.service.lifecycle.shadows.run import follow_due
from pgtrickle.service.refreshing import commit
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.service.lifecycle.die_in_snapshots import dying

# By name: whose attribute is called, which, and whether the process dies before or after it.
BEGIN_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before its entry": (start, "insert_shadow_build", True),
    "with its entry": (start, "insert_shadow_build", False),
    "begun": (start, "declare_successor", False),
}
FOLLOW_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the refresh": (advance, "refresh_stream_table", True),
    "after the refresh": (advance, "refresh_stream_table", False),
    "with it on record": (advance, "record_round", False),
}
PROMOTE_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the last refresh": (replacement, "refresh_when_free", True),
    "with the lease": (replacement, "keep_lease", True),
    "before the columns": (replacement, "change_columns", True),
    "with the columns": (replacement, "change_columns", False),
    "before the rows": (replacement, "replace_contents", True),
    "with the rows": (replacement, "replace_contents", False),
    "with the old state gone": (replacement, "drop_state_tables", False),
    "with the new state": (replacement, "rename_state_tables", False),
    "with the query": (replacement, "adopt_successor", False),
    "with the frontier": (commit, "update_frontier", False),
    "with the history": (replacement, "commit", False),
    "with the shadow gone": (replacement, "delete_stream_table", False),
    "with the end on record": (promote, "end_build", False),
    "after the commit": (replacement, "until_free", False),
    "before the clearing up": (promote, "end_unused", True),
    "before the comment": (promote, "describe", True),
}
CANCEL_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the end is on record": (cancel, "end_build", True),
    "before the shadow is gone": (cancel, "discard", True),
    "at the end": (cancel, "discard", False),
}
KINDS = {
    "begin": BEGIN_STEPS,
    "follow": FOLLOW_STEPS,
    "promote": PROMOTE_STEPS,
    "cancel": CANCEL_STEPS,
}


def main(dsn: str, kind: str, step: str, name: str, query: str) -> None:
    """Do what is asked for, and die at the step."""
    owner, attribute, before = KINDS[kind][step]
    setattr(owner, attribute, dying(getattr(owner, attribute), before=before))
    settings = load_settings({}, dsn=dsn, lease_seconds=1)
    with pgtrickle.connect(dsn, engine=DuckDbEngine(), settings=settings) as trickle:
        if kind == "begin":
            trickle.alter_stream_table(name, query=query, shadow_build=True, hold=True)
        elif kind == "follow":
            follow_due(trickle._runtime)
        elif kind == "promote":
            trickle.shadows.promote_shadow(name)
        else:
            trickle.shadows.cancel_shadow(name)
    raise AssertionError(f"the step was not reached: {kind} {step}")


if __name__ == "__main__":
    main(*sys.argv[1:])
