"""Processes that refresh stream tables and are killed at a named step of the delivery.

python -m tests.lake.die_at

For each line of its input, a list in JSON (DSN, kind, step, names), it forks one that has all it
needs in memory, and prints how that ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pgtrickle
from pgtrickle.errors import LeaseHeldError
from pgtrickle.lake.write import delete_rows, deliver, write_rows
from pgtrickle.lake.write.commit import Commit
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.lake.write.parquet import DataFileWriter
from pgtrickle.service.refreshing import run
from pgtrickle.service.sinks.ducklake import delivery as lake_sink
from pgtrickle.service.sinks.ducklake import other_database as lake_elsewhere
from pgtrickle.settings import load_settings
from tests.fakes.spreading import SpreadingEngine
from tests.lake.shore import LAKE_DSN

# By name: whose attribute is called, which, and whether the process dies before or after it.
STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the delivery": (lake_sink, "deliver_refresh", True),
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
    "before the commit": (lake_sink, "deliver_refresh", False),
    "after the commit": (run, "run_refresh", False),
}
# Likewise, of a large load: after the refresh, and in parts.
LOAD_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the load": (lake_sink, "deliver_left", True),
    "with half a part": (DataFileWriter, "write", False),
    "after a part": (DataFileWriter, "close", False),
    "after all parts": (SpreadingEngine, "spread", False),
    "with the lock": (deliver, "begin_commit", False),
    "before the delivery is closed": (lake_sink, "close_delivery", True),
    "before the commit of the load": (lake_sink, "check_lease", False),
    "after the load": (lake_sink, "deliver_left", False),
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
    "after the difference": (lake_sink, "deliver_left", False),
}
# Likewise, of a delivery to a catalog in another database, which follows the refresh.
ELSEWHERE_STEPS: dict[str, tuple[Any, str, bool]] = {
    "before the delivery": (lake_sink, "deliver_left", True),
    "with the lock": (deliver, "begin_commit", False),
    "after the rows are shown to the lake": (deliver, "show_gone", False),
    "with the snapshot": (Commit, "finish", False),
    "with the intent": (lake_sink, "insert_intent", False),
    "with the intent committed": (lake_sink, "commit_intent", False),
    "while the lake commits": (lake_sink, "commit_intent", False),
    "after the lake has committed": (lake_sink, "commit_elsewhere", False),
    "with the intent struck off": (lake_elsewhere, "take_intent", False),
    "with the delivery closed": (lake_elsewhere, "close_delivery", False),
    "after the delivery": (lake_sink, "deliver_left", False),
}
# By name: after which of those steps another process comes that dies too, and where.
SETTLE_STEPS: dict[str, tuple[str, tuple[Any, str, bool]]] = {
    "with the intent undone": ("with the intent committed", (lake_elsewhere, "put_back", False)),
    "before files are removed": (
        "with the intent committed",
        (lake_elsewhere, "_remove_files", True),
    ),
    "with the intent confirmed": (
        "after the lake has committed",
        (lake_elsewhere, "close_delivery", False),
    ),
}
KINDS = {
    "refresh": STEPS,
    "load": LOAD_STEPS,
    "difference": DIFFERENCE_STEPS,
    "elsewhere": ELSEWHERE_STEPS,
    "settle": {name: step for name, (_, step) in SETTLE_STEPS.items()},
}


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(call: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def called(*arguments: Any, **named: Any) -> Any:
        if before:
            _die()
        call(*arguments, **named)
        _die()

    return called


def _dying_in_commit(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let the process die when the lake has been told to commit, and before it answers."""

    def called(runtime: Any, ends: Ends, *arguments: Any, **named: Any) -> Any:
        call(runtime, ends, *arguments, **named)
        ends.lake.pgconn.send_query(b"COMMIT")
        ends.lake.pgconn.flush()
        _die()

    return called


def main(dsn: str, kind: str, step: str, names: list[str]) -> None:
    """Refresh until the step is reached; a lease that a dead rival left is waited for."""
    owner, attribute, before = KINDS[kind][step]
    if kind in {"load", "difference"}:
        lake_sink.largest_in_place = lambda _: 0  # type: ignore[assignment, attr-defined]
    doomed = _dying(getattr(owner, attribute), before=before)
    if step == "while the lake commits":
        doomed = _dying_in_commit(getattr(owner, attribute))
    setattr(owner, attribute, doomed)
    delete_rows.INLINE_LIMIT = 20  # both ways of deleting, with few rows
    elsewhere = f"${{ENV:{LAKE_DSN}}}" if kind in {"elsewhere", "settle"} else ""
    settings = load_settings(
        {},
        dsn=dsn,
        ducklake_catalog_schema="lake",
        ducklake_catalog_dsn=elsewhere,
        ducklake_sink_retry_seconds=0.0,
        ducklake_sink_max_retries=1000,
        lease_seconds=1,
    )
    with pgtrickle.connect(dsn, engine=SpreadingEngine(dsn), settings=settings) as trickle:
        while True:
            for name in names:
                try:
                    trickle.refresh_stream_table(name)
                except LeaseHeldError:
                    time.sleep(0.05)


def serve() -> None:
    """Fork a process for each line of the input."""
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                main(*json.loads(line))
            except BaseException:  # noqa: BLE001 - told, and this process is over in any case
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    serve()
