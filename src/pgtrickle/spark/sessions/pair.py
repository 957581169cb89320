"""The Spark sessions of this process: one context, started at first use, with two profiles.

If the user already has a session, the same context is used (see ``users_session``).
The environment decides where Spark runs: ``SPARK_REMOTE`` names a Spark Connect server,
``SPARK_MASTER`` a cluster manager; the default is ``local[*]``, with at least two threads.
The JVM's output goes to a file in a private directory, never to the user's terminal.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pgtrickle.errors import SparkFailedError
from pgtrickle.extras import require
from pgtrickle.spark.sessions.authentication import (
    authentication,
    cluster_authentication,
    is_standalone,
)
from pgtrickle.spark.sessions.class_archive import ClassArchive, find_archive
from pgtrickle.spark.sessions.java import Java, require_java
from pgtrickle.spark.sessions.jvm import Jvm, within
from pgtrickle.spark.sessions.profiles import (
    EXACT,
    LARGE,
    SMALL,
    context_settings,
    default_master,
    is_local,
)
from pgtrickle.spark.sessions.record_classes import RECORD_AFTER, Recorder
from pgtrickle.spark.sessions.scratch import Scratch
from pgtrickle.spark.sessions.users_session import (
    close_child,
    find_session,
    has_user,
    hide,
    is_connect,
    require_session,
)

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_DEFAULT_DRIVER_MEMORY = "2g"
_DEFAULT_RESULT_BYTES = 128 * 2**20
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# A long-running process starts rarely: writing an archive of classes would only keep it from
# ending.
_STARTS_OFTEN = 600.0
_STOPS_WITHIN = 20.0  # seconds
_JVM_ENDS_WITHIN = 10.0
_ARCHIVE_WRITTEN_WITHIN = 60.0
_AUTHENTICATION_HINT = (
    " A cluster that authenticates needs PGTRICKLE_SPARK_AUTH_SECRET_FILE, and one that does not"
    " takes no secret."
)


class SparkSessions:
    """A small and a large session over one context; safe to share between threads."""

    def __init__(
        self,
        *,
        master: str | None = None,
        driver_memory: str = _DEFAULT_DRIVER_MEMORY,
        result_bytes: int = _DEFAULT_RESULT_BYTES,
        class_archive: bool = True,
        secret_file: str = "",
        record_after: float | None = RECORD_AFTER,
        settings: Mapping[str, str] | None = None,
        session: SparkSession | None = None,
    ) -> None:
        self._master = master or os.environ.get("SPARK_MASTER") or default_master()
        self._driver_memory = driver_memory
        self._result_bytes = result_bytes
        self._secret_file = secret_file
        self._settings = dict(settings or {})
        self._use_archive = class_archive and _JAVA_OPTIONS not in self._settings
        self._archive: ClassArchive | None = None
        self._record_after = record_after
        self._recorder: Recorder | None = None
        self._started_at = 0.0
        self._lock = threading.Lock()
        self._scratch: Scratch | None = None
        self._jvm = Jvm()
        self._given = None if session is None else require_session(session)
        self._beside: SparkSession | None = None  # the user's, whose context is used
        # The large session is the context's first: Spark 4.3 finds a Python data source only in the
        # session that registered it, and refuses to register it in a second one.
        self._large: SparkSession | None = None
        self._small: SparkSession | None = None

    @property
    def remote(self) -> bool:
        """Whether the work goes to a Spark Connect server."""
        users = self._beside or self._given
        return is_connect(users) if users is not None else bool(os.environ.get("SPARK_REMOTE"))

    @property
    def local(self) -> bool:
        """Whether executors share this machine's files."""
        users = self._beside or self._given
        return not self.remote and is_local(
            self._master if users is None else str(users.sparkContext.master)
        )

    @property
    def scratch(self) -> Path:
        """A private directory that lives as long as this object."""
        if self._scratch is None:
            self._scratch = Scratch()
            atexit.register(self._scratch.remove)
        return self._scratch.path

    @property
    def started(self) -> bool:
        """Whether a context has been started and not stopped since."""
        return self._large is not None

    @property
    def context(self) -> SparkContext | None:
        """The context of this process, if it runs; does not wait."""
        return getattr(self._large, "_sc", None)

    @property
    def pid(self) -> int | None:
        """The process of a JVM that this one has started."""
        process = self._jvm.process
        return None if process is None or process.poll() is not None else process.pid

    def living(self) -> list[SparkSession]:
        """Return the existing sessions; does not wait."""
        return [one for one in (self._small, self._large) if one is not None]

    def small(self) -> SparkSession:
        """Return the session for deltas of a few thousand rows."""
        with self._lock:
            large = self._living()
            if self._small is None:
                self._small = self._child_of(large, SMALL)
            return self._small

    def large(self) -> SparkSession:
        """Return the session that spreads work over the executors."""
        with self._lock:
            return self._living()

    def stop(self) -> None:
        """Stop the context; the next use starts a new one.

        A thread that waits for Spark's answer keeps the lock; without a JVM it gets an error.
        """
        if not self._lock.acquire(timeout=_STOPS_WITHIN):
            self.kill()
            self._lock.acquire()
        try:
            self._stop()
        finally:
            self._lock.release()

    def kill(self) -> None:
        """End the JVM at once, in any state; the next use starts a new one.

        It does not wait, and also removes the temporary files.
        """
        if self._recorder is not None:
            self._recorder.kill()
        self._jvm.kill()
        scratch, self._scratch = self._scratch, None
        if scratch is not None:
            scratch.remove()

    def _living(self) -> SparkSession:
        if self._large is not None and not _is_alive(self._large):
            self._stop()
        if self._large is None:
            require("pyspark")
            began = time.monotonic()
            users = require_session(self._given) if self._given is not None else find_session()
            self._beside = users
            if users is not None:
                self._large = self._child_of(users, LARGE)
                _register_sources(self._large)
                logger.info("Spark is the caller's own", extra={"master": self._where})
                return self._large
            session = self._start_remote() if self.remote else self._start()
            self._configure(session, LARGE)
            _register_sources(session)
            if not self.remote:
                hide(session)
            self._large = session
            took = round(time.monotonic() - began, 1)
            logger.info("Spark is up", extra={"seconds": took, "master": self._where})
            self._let_record()
        return self._large

    def _child_of(self, session: SparkSession, profile: Mapping[str, str]) -> SparkSession:
        child = session.newSession()
        if self._beside is None and not self.remote:
            hide(child)
        self._configure(child, profile)
        return child

    def _let_record(self) -> None:
        """Let another process write the archive of classes, if there is none after a while."""
        if self._archive is None or self._archive.draft is None or self._record_after is None:
            return
        self._recorder = Recorder(self._record_after)
        self._recorder.start()

    @property
    def _where(self) -> str:
        """The address of Spark, without connection parameters: one may be a token."""
        if self._beside is not None:
            return "Spark Connect" if self.remote else str(self._beside.sparkContext.master)
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
        from pyspark.sql import SparkSession

        settings, secrets = self._context_settings(java)
        self._started_at = time.monotonic()
        # The workers must run this interpreter: another has neither pyarrow nor this package.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        log = self.scratch / "spark.log"
        session = None
        try:
            # A user who has stopped a context leaves a JVM, and pyspark knows one at a time.
            gateway = SparkContext._gateway  # noqa: SLF001 - no public way to ask
            if gateway is None:
                gateway = self._jvm.start(settings, self.scratch, log)
            conf = SparkConf(loadDefaults=False).setAll([*settings.items(), *secrets.items()])
            session = SparkSession(SparkContext(conf=conf, gateway=gateway))
        except Exception as error:
            # py4j, socket and Spark errors share no narrower base.
            raise SparkFailedError(
                "could not start Spark",
                detail=f"{error}\n{_tail(log)}",
                hint="Check SPARK_MASTER and the memory of the machine."
                + (_AUTHENTICATION_HINT if is_standalone(self._master) else ""),
            ) from error
        finally:
            if session is None:  # Ctrl-C, too, leaves no JVM behind
                self._jvm.kill()
                self._forget_jvm()
        return session

    def _context_settings(self, java: Java) -> tuple[dict[str, str], Mapping[str, str]]:
        """Return the public and the secret settings of a new context."""
        settings = context_settings(
            self._master, self.scratch, self._driver_memory, self._result_bytes
        )
        self._archive = find_archive(java.version, self.scratch) if self._use_archive else None
        if self._archive is not None:
            settings[_JAVA_OPTIONS] += f" {self._archive.java_options}"
        shared, secrets = cluster_authentication(self._master, self._secret_file)
        return {**settings, **authentication(self._master), **shared, **self._settings}, secrets

    def _configure(self, session: SparkSession, profile: Mapping[str, str]) -> None:
        for name, value in {**EXACT, **profile}.items():
            session.conf.set(name, value)
        for name, value in self._settings.items():
            if session.conf.isModifiable(name):
                session.conf.set(name, value)

    def _stop(self) -> None:
        large, small, self._large, self._small = self._large, self._small, None, None
        beside, self._beside = self._beside, None
        if large is None:
            return
        if beside is not None:
            for child in filter(None, (small, large)):
                within(_STOPS_WITHIN, partial(close_child, child))
            return
        if not self.remote and has_user():
            return  # another user of the context keeps it; it ends with the process
        # Through Spark Connect each session has its own connection, and an open one
        # keeps the process from ending.  Elsewhere the two share a context.
        for session in (small, large) if self.remote else (large,):
            # A JVM that died or hangs cannot be stopped, only forgotten.
            if session is not None and not within(_STOPS_WITHIN, session.stop):
                self._jvm.kill()
        if not self.remote:
            self._end_jvm()

    def _end_jvm(self) -> None:
        """Let the JVM end, and write its archive of classes if that is worth the time."""
        archive, self._archive = self._archive, None
        if self._recorder is not None:
            self._recorder.stop()
        if archive is None or archive.draft is None:
            self._jvm.end(_JVM_ENDS_WITHIN)
        elif archive.path.exists() or time.monotonic() - self._started_at > _STARTS_OFTEN:
            self._jvm.kill()  # the context is stopped: only the archive is missing
        elif self._jvm.end(_ARCHIVE_WRITTEN_WITHIN):
            archive.keep()
        self._forget_jvm()

    def _forget_jvm(self) -> None:
        """Make pyspark use a new JVM next time, as it would in a new process.

        It keeps the gateway in class attributes and has no public way to reset them, so after the
        JVM died every later session would fail on the old socket.
        """
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        if SparkContext._gateway is self._jvm.gateway:  # noqa: SLF001 - see above
            SparkContext._gateway = None  # noqa: SLF001 - see above
            SparkContext._jvm = None  # noqa: SLF001 - see above
            SparkContext._active_spark_context = None  # noqa: SLF001 - see above
            SparkSession._instantiatedSession = None  # noqa: SLF001 - see above


def _register_sources(session: SparkSession) -> None:
    from pgtrickle.spark.executors.pg_sink import StagingSink  # noqa: PLC0415 - imports pyspark
    from pgtrickle.spark.executors.pg_source import PostgresSource  # noqa: PLC0415 - imports pyspark

    session.dataSource.register(PostgresSource)
    session.dataSource.register(StagingSink)


def _is_alive(session: SparkSession) -> bool:
    try:
        session.conf.get("spark.sql.session.timeZone")
        return bool(session.version) and not _context_stopped(session)
    except Exception:  # noqa: BLE001 - any failure of this trivial question means a dead session
        return False


def _context_stopped(session: SparkSession) -> bool:
    context = getattr(session, "_sc", None)
    return context is not None and (context._jsc is None or context._jsc.sc().isStopped())  # noqa: SLF001 - pyspark offers no public way to ask


def _tail(log: Path, characters: int = 2000) -> str:
    try:
        return log.read_text(errors="replace")[-characters:]
    except OSError:
        return ""
