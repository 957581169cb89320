"""A process that dumps or restores definitions and is killed at a named step of that.

python -m tests.service.lifecycle.die_in_dumps DSN KIND STEP PATH
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pgtrickle
from pgtrickle.service.lifecycle.definitions import files, restore, take
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.service.lifecycle.die_in_snapshots import dying

# By name: whose attribute is called, which, which call of it, and whether the process dies before
# or after that.
DUMP_STEPS: dict[str, tuple[Any, str, int, bool]] = {
    "with the directory": (take, "new_directory", 1, False),
    "with the descriptions": (take, "describe_database", 1, False),
    "with the rows of the first": (take, "write_rows", 1, False),
    "with the rows of the last": (take, "write_rows", 3, False),
    "before the files": (take, "write_dump_files", 1, True),
    "with the first file": (files, "write_text", 1, False),
    "before the index": (files, "write_text", 4, True),
    "with the index": (files, "write_text", 4, False),
}
RESTORE_STEPS: dict[str, tuple[Any, str, int, bool]] = {
    "with all checked": (restore, "check_restorable", 1, False),
    "before the first": (restore, "create_stream_table", 1, True),
    "with the first": (restore, "create_stream_table", 1, False),
    "before its rows": (restore, "load_rows", 1, True),
    "with its rows": (restore, "load_rows", 1, False),
    "before what was added to it": (restore, "alter_table", 1, True),
    "within what was added to it": (restore, "alter_table", 1, False),
    "with what was added to it": (restore, "until_free", 1, False),
    "before the second": (restore, "create_stream_table", 2, True),
    "with the second": (restore, "create_stream_table", 2, False),
    "with the rows of the second": (restore, "load_rows", 2, False),
    "with the last": (restore, "create_stream_table", 3, False),
    "with the rows of the last": (restore, "load_rows", 3, False),
    "before the scheduling": (restore, "describe_scheduling", 1, True),
    "with it looked at": (restore, "describe_scheduling", 1, False),
}
KINDS = {"dump": DUMP_STEPS, "restore": RESTORE_STEPS}


def dying_at(call: Callable[..., Any], number: int, *, before: bool) -> Callable[..., Any]:
    """Return a function that does what another does, and dies in one of its calls."""
    calls = count(1)
    last = dying(call, before=before)

    def called(*arguments: Any, **named: Any) -> Any:
        return (last if next(calls) == number else call)(*arguments, **named)

    return called


def main(dsn: str, kind: str, step: str, path: str) -> None:
    """Do what is asked for, and die at the step."""
    owner, attribute, number, before = KINDS[kind][step]
    setattr(owner, attribute, dying_at(getattr(owner, attribute), number, before=before))
    settings = load_settings({}, dsn=dsn, lease_seconds=1)
    with pgtrickle.connect(dsn, engine=DuckDbEngine(), settings=settings) as trickle:
        if kind == "dump":
            trickle.definitions.dump_definitions(Path(path), format="yaml", with_data=True)
        else:
            trickle.definitions.restore_definitions(Path(path))
    raise AssertionError(f"the step was not reached: {kind} {step}")


if __name__ == "__main__":
    main(*sys.argv[1:])
