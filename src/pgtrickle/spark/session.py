"""The Spark sessions of this process: one context, started at first use, with two profiles.

Where Spark runs is decided by the environment: ``SPARK_REMOTE`` names a Spark Connect server,
``SPARK_MASTER`` a cluster manager; without either it is ``local[*]``, with two threads at least.
What the JVM prints goes to a file in a private directory, never to the user's terminal.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pgtrickle.errors import SparkFailedError
from pgtrickle.spark.class_archive import ClassArchive, find_archive
from pgtrickle.spark.java import require_java
from pgtrickle.spark.profiles import (
    EXACT,
    LARGE,
    SMALL,
    context_settings,
    default_master,
    is_local,
)
from pgtrickle.spark.record_classes import RECORD_AFTER, Recorder

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_DEFAULT_DRIVER_MEMORY = "2g"
_DEFAULT_RESULT_BYTES = 128 * 2**20
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# A process that ran for longer starts seldom: writing an archive of classes would only keep it from
# ending.
_STARTS_OFTEN = 600.0
_JVM_ENDS_WITHIN = 10.0  # seconds
_ARCHIVE_WRITTEN_WITHIN = 60.0


class SparkSessions:
    """A small and a large session over one context; safe to share between threads."""

    def __init__(
        self,
        *,
        master: str | None = None,
        driver_memory: str = _DEFAULT_DRIVER_MEMORY,
        result_bytes: int = _DEFAULT_RESULT_BYTES,
        class_archive: bool = True,
        record_after: float | None = RECORD_AFTER,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._master = master or os.environ.get("SPARK_MASTER") or default_master()
        self._driver_memory = driver_memory
        self._result_bytes = result_bytes
        self._settings = dict(settings or {})
        self._use_archive = class_archive and _JAVA_OPTIONS not in self._settings
        self._archive: ClassArchive | None = None
        self._record_after = record_after
        self._recorder: Recorder | None = None
        self._started_at = 0.0
        self._lock = threading.Lock()
        self._scratch: Path | None = None
        # The large session is the context's first: Spark 4.3 finds a Python data source only in the
        # session that registered it, and refuses to register it in a second one.
        self._large: SparkSession | None = None
        self._small: SparkSession | None = None

    @property
    def remote(self) -> bool:
        """Whether the work goes to a Spark Connect server."""
        return bool(os.environ.get("SPARK_REMOTE"))

    @property
    def local(self) -> bool:
        """Whether executors share this machine's files."""
        return not self.remote and is_local(self._master)

    @property
    def scratch(self) -> Path:
        """A private directory that lives as long as this object."""
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="pgtrickle-spark-"))
            atexit.register(shutil.rmtree, self._scratch, ignore_errors=True)
        return self._scratch

    @property
    def started(self) -> bool:
        """Whether a context has been started and not stopped since."""
        return self._large is not None

    def small(self) -> SparkSession:
        """Return the session for deltas of a few thousand rows."""
        with self._lock:
            large = self._living()
            if self._small is None:
                self._small = large.newSession()
                self._configure(self._small, SMALL)
            return self._small

    def large(self) -> SparkSession:
        """Return the session that spreads work over the executors."""
        with self._lock:
            return self._living()

    def stop(self) -> None:
        """Stop the context; the next use starts a new one."""
        with self._lock:
            self._stop()

    def _living(self) -> SparkSession:
        if self._large is not None and not _is_alive(self._large):
            self._stop()
        if self._large is None:
            began = time.monotonic()
            session = self._start_remote() if self.remote else self._start()
            self._configure(session, LARGE)
            _register_sources(session)
            self._large = session
            took = round(time.monotonic() - began, 1)
            logger.info("Spark is up", extra={"seconds": took, "master": self._where})
            self._let_record()
        return self._large

    def _let_record(self) -> None:
        """Have the archive of classes written by another process, if there is none in a while."""
        if self._archive is None or self._archive.draft is None or self._record_after is None:
            return
        self._recorder = Recorder(self._record_after)
        self._recorder.start()

    @property
    def _where(self) -> str:
        """Where the work is done, without the parameters of a connection: one may be a token."""
        return os.environ["SPARK_REMOTE"].split(";", 1)[0] if self.remote else self._master

    def _start_remote(self) -> SparkSession:
        from pyspark.sql import SparkSession

        try:
            return SparkSession.builder.remote(os.environ["SPARK_REMOTE"]).getOrCreate()
        except Exception as error:
            # gRPC, socket and Spark errors share no narrower base.
            raise SparkFailedError(
                "could not connect to the Spark Connect server",
                detail=str(error),
                hint="Check SPARK_REMOTE and that the server runs.",
            ) from error

    def _start(self) -> SparkSession:
        java = require_java()
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession

        settings = context_settings(
            self._master, self.scratch, self._driver_memory, self._result_bytes
        )
        self._started_at = time.monotonic()
        self._archive = find_archive(java.version, self.scratch) if self._use_archive else None
        if self._archive is not None:
            settings[_JAVA_OPTIONS] += f" {self._archive.java_options}"
        conf = SparkConf(loadDefaults=False).setAll(list((settings | self._settings).items()))
        # The workers must run this interpreter: another has neither pyarrow nor this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        log = self.scratch / "spark.log"
        try:
            with log.open("ab") as output, _package_on_python_path():
                streams = {"stdout": output, "stderr": output}
                # With the JVM's own output in a file, its notices stay off the terminal.
                gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]  # pyspark's
            return SparkSession(SparkContext(conf=conf, gateway=gateway))
        except Exception as error:
            # py4j, socket and Spark errors share no narrower base.
            _forget_jvm()
            raise SparkFailedError(
                "could not start Spark",
                detail=f"{error}\n{_tail(log)}",
                hint="Check SPARK_MASTER and the memory of the machine.",
            ) from error

    def _configure(self, session: SparkSession, profile: Mapping[str, str]) -> None:
        for name, value in {**EXACT, **profile}.items():
            session.conf.set(name, value)
        for name, value in self._settings.items():
            if session.conf.isModifiable(name):
                session.conf.set(name, value)

    def _stop(self) -> None:
        large, small, self._large, self._small = self._large, self._small, None, None
        if large is None:
            return
        # Through Spark Connect each session has a connection of its own, and one that is left open
        # keeps the process from ending.  Elsewhere the two share a context.
        for session in (small, large) if self.remote else (large,):
            # A JVM that died cannot be told to stop; forgetting it is all that is left.
            with suppress(Exception):
                if session is not None:
                    session.stop()
        if not self.remote:
            self._end_jvm()

    def _end_jvm(self) -> None:
        """Let the JVM end, and write its archive of classes where that is worth the time."""
        archive, self._archive = self._archive, None
        if self._recorder is not None:
            self._recorder.stop()
        if archive is None or archive.draft is None:
            _forget_jvm()
        elif archive.path.exists() or time.monotonic() - self._started_at > _STARTS_OFTEN:
            _forget_jvm(kill=True)  # the context is stopped: all that is left is the archive
        elif _forget_jvm(patience=_ARCHIVE_WRITTEN_WITHIN):
            archive.keep()


def _register_sources(session: SparkSession) -> None:
    from pgtrickle.spark.pg_sink import StagingSink  # noqa: PLC0415 - imports pyspark
    from pgtrickle.spark.pg_source import PostgresSource  # noqa: PLC0415 - imports pyspark

    session.dataSource.register(PostgresSource)
    session.dataSource.register(StagingSink)


@contextmanager
def _package_on_python_path() -> Iterator[None]:
    """Let the JVM inherit a PYTHONPATH with which its workers can import this package."""
    before = os.environ.get("PYTHONPATH")
    package_root = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [before, package_root]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _is_alive(session: SparkSession) -> bool:
    try:
        session.conf.get("spark.sql.session.timeZone")
        return bool(session.version) and not _context_stopped(session)
    except Exception:  # noqa: BLE001 - any failure of this trivial question means a dead session
        return False


def _context_stopped(session: SparkSession) -> bool:
    context = getattr(session, "_sc", None)
    return context is not None and (context._jsc is None or context._jsc.sc().isStopped())  # noqa: SLF001 - pyspark offers no public way to ask


def _forget_jvm(*, patience: float = _JVM_ENDS_WITHIN, kill: bool = False) -> bool:
    """Make pyspark start a new JVM next time, as it would in a new process; tell if it ended well.

    It keeps the gateway in class attributes and has no public way to reset them, so after the JVM
    died every later session would fail on the old socket.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway  # noqa: SLF001 - see above
    ended_well = False
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            with suppress(Exception):
                if kill:
                    process.kill()
                process.stdin.close()
                ended_well = process.wait(timeout=patience) == 0
    SparkContext._gateway = None  # noqa: SLF001 - see above
    SparkContext._jvm = None  # noqa: SLF001 - see above
    SparkContext._active_spark_context = None  # noqa: SLF001 - see above
    SparkSession._instantiatedSession = None  # noqa: SLF001 - see above
    return ended_well


def _tail(log: Path, characters: int = 2000) -> str:
    try:
        return log.read_text(errors="replace")[-characters:]
    except OSError:
        return ""
