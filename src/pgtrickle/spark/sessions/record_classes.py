"""Let a separate process write the archive of Spark's classes, beside a long-running one.

A daemon that is killed writes nothing, and its successor would start as slowly as it did.  So a
process that has run for a while without an archive lets another one start Spark, do a little of
everything, and stop: at the lowest priority, once per installation.

    python -m pgtrickle.spark.sessions.record_classes
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from pgtrickle.spark.sessions.class_archive import lock_of_archives

RECORD_AFTER = 30.0  # seconds: a process that ends earlier writes the archive itself
_LOWEST = 19
_ROWS = {"k": [1, 1, 2], "v": ["a", "b", "c"]}
_QUERIES = (
    "SELECT k, count(*) AS n, max(v) AS v FROM t GROUP BY k",
    "SELECT a.k, b.v FROM t AS a JOIN t AS b ON a.k = b.k WHERE a.v < b.v",
)


@dataclass(slots=True)
class Recorder:
    """A process that writes the archive, unless it is stopped first."""

    after: float
    _stopped: threading.Event = field(default_factory=threading.Event)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it after a delay."""
        threading.Thread(target=self._record, name="pgtrickle-classes", daemon=True).start()

    def stop(self) -> None:
        """Prevent its start, or end it at once."""
        self._stopped.set()

    def kill(self) -> None:
        """End it without waiting."""
        self.stop()
        if self._process is not None:
            self._process.kill()

    def _record(self) -> None:
        if self._stopped.wait(self.after):
            return
        nothing = subprocess.DEVNULL
        with suppress(OSError):
            process = self._process = subprocess.Popen(
                [sys.executable, "-m", "pgtrickle.spark.sessions.record_classes"],
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
            )
            while process.poll() is None:
                if self._stopped.wait(0.5):
                    process.terminate()
                    process.wait()


def main() -> int:
    """Write the archive, unless another process is about to."""
    import pyarrow as pa  # noqa: PLC0415 - only the recording itself needs it

    from pgtrickle.spark.engine import SparkEngine  # noqa: PLC0415 - it imports this module
    from pgtrickle.spark.sessions.pair import SparkSessions  # noqa: PLC0415 - likewise

    lock = lock_of_archives()
    if lock is None:
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and not without the JVM
    os.nice(_LOWEST)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return 0
        sessions = SparkSessions(master="local[1]", record_after=None)
        engine = SparkEngine("", sessions)
        end = sessions.stop
        try:
            for query in _QUERIES:
                engine.run(query, {"t": pa.table(_ROWS)})
        except SystemExit:
            end = sessions.kill
            raise
        finally:
            end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
