"""A process that refreshes stream tables and is killed at a named step of the delivery.

python -m tests.lake.die_at DSN KIND STEP NAME...
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pgtrickle
from pgtrickle.errors import LeaseHeldError
from pgtrickle.lake import delete_rows, deliver, write_rows
from pgtrickle.lake.commit import Commit
from pgtrickle.lake.parquet import DataFileWriter
from pgtrickle.service import lake_sink, refresh
from pgtrickle.settings import load_settings
from tests.fakes.spreading import SpreadingEngine

# By name: whose attribute is called, which, and whether the process dies before or after it.
STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the delivery": (refresh, "deliver_refresh", True),
    "before a data file": (write_rows, "DataFileWriter", True),
    "with an empty data file": (write_rows, "DataFileWriter", False),
    "with half a data file": (DataFileWriter, "write", False),
    "before a data file ends": (DataFileWriter, "close", True),
    "after a data file": (DataFileWriter, "close", False),
    "before the lock": (deliver, "begin_commit", True),
    "with the lock": (deliver, "begin_commit", False),
    "before a delete file": (delete_rows, "write_deletes", True),
    "after a delete file": (delete_rows, "write_deletes", False),
    "after inlined deletes": (Commit, "inline_deletes", False),
    "after the deletes": (deliver, "delete_gone", False),
    "after the files are registered": (Commit, "add_data_files", False),
    "before the snapshot": (Commit, "finish", True),
    "after the snapshot": (Commit, "finish", False),
    "before the provenance": (lake_sink, "insert_provenance", True),
    "before the delivery is closed": (lake_sink, "close_delivery", True),
    "after the delivery is closed": (lake_sink, "close_delivery", False),
    "before the commit": (refresh, "deliver_refresh", False),
    "after the commit": (refresh.Refresh, "run", False),
}
# Likewise, of a large load: after the refresh, and in parts.
LOAD_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the load": (refresh, "deliver_left", True),
    "with half a part": (DataFileWriter, "write", False),
    "after a part": (DataFileWriter, "close", False),
    "after all parts": (SpreadingEngine, "spread", False),
    "with the lock": (deliver, "begin_commit", False),
    "before the delivery is closed": (lake_sink, "close_delivery", True),
    "before the commit of the load": (lake_sink, "check_lease", False),
    "after the load": (refresh, "deliver_left", False),
}
# Likewise, of a large difference.
DIFFERENCE_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before updates are paired": (lake_sink, "pair_updates", True),
    "when updates are paired": (lake_sink, "pair_updates", False),
    "before the snapshot for others": (lake_sink, "_loading_apart", True),
    "with half a part": (DataFileWriter, "write", False),
    "after a part": (DataFileWriter, "close", False),
    "after all parts": (SpreadingEngine, "spread", False),
    "with the lock": (deliver, "begin_commit", False),
    "after the deletes": (deliver, "delete_gone", False),
    "before the delivery is closed": (lake_sink, "close_delivery", True),
    "before the commit of the difference": (lake_sink, "check_lease", False),
    "after the difference": (refresh, "deliver_left", False),
}
KINDS = {"refresh": STEPS, "load": LOAD_STEPS, "difference": DIFFERENCE_STEPS}


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(call: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        if before:
            _die()
        call(*arguments, **named)
        _die()

    return called


def main(dsn: str, kind: str, step: str, names: list[str]) -> None:
    """Refresh until the step is reached; a lease that a dead rival left is waited for."""
    owner, attribute, before = KINDS[kind][step]
    if kind != "refresh":
        lake_sink.largest_in_place = lambda _: 0  # type: ignore[assignment, attr-defined]
    setattr(owner, attribute, _dying(getattr(owner, attribute), before=before))
    delete_rows.INLINE_LIMIT = 20  # both ways of deleting, with few rows
    settings = load_settings({}, dsn=dsn, ducklake_catalog_schema="lake", lease_seconds=1)
    with pgtrickle.connect(dsn, engine=SpreadingEngine(dsn), settings=settings) as trickle:
        while True:
            for name in names:
                try:
                    trickle.refresh_stream_table(name)
                except LeaseHeldError:
                    time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
