"""What makes no progress is ended with ST410: by cancelling it, else by ending Spark's JVM."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from pgtrickle.errors import RefreshStalledError, Retry, SparkFailedError
from pgtrickle.ports import job_named
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.session import SparkSessions
from pgtrickle.spark.stall_watch import StallWatch

_SECONDS = 0.6
_ROWS = {"t": pa.table({"a": [1, 2, 3]})}


@dataclass
class FakeWork:
    """Work that stands still, and how it can be ended."""

    heeds_cancel: bool = True
    answering: bool = True
    state: Callable[[], object] = lambda: "the same"
    ended: threading.Event = field(default_factory=threading.Event)
    killed: bool = False

    def progress(self, job: str | None) -> object:
        return self.state()

    def cancel(self, job: str | None, seconds: float) -> None:
        if self.heeds_cancel:
            self.ended.set()

    def answers(self, seconds: float) -> bool:
        return self.answering

    def kill(self) -> None:
        self.killed = True
        self.ended.set()

    def hang(self, seconds: float = 30.0) -> None:
        if self.ended.wait(seconds):
            raise SparkFailedError("cancelled")


def test_work_that_stands_still_is_cancelled() -> None:
    work = FakeWork()

    with (
        pytest.raises(RefreshStalledError) as caught,
        job_named("public.t"),
        StallWatch(work, _SECONDS).watching(),
    ):
        work.hang()

    assert (caught.value.code, caught.value.retry) == ("ST410", Retry.BACKOFF)
    assert not work.killed


@pytest.mark.parametrize("work", [FakeWork(heeds_cancel=False), FakeWork(answering=False)])
def test_spark_is_ended_where_it_does_not_heed_or_answer(work: FakeWork) -> None:
    with pytest.raises(RefreshStalledError), StallWatch(work, _SECONDS).watching():
        work.hang()

    assert work.killed


def test_what_moves_is_left_alone() -> None:
    work = FakeWork(state=time.monotonic)

    with StallWatch(work, _SECONDS).watching():
        work.hang(3 * _SECONDS)

    assert not work.ended.is_set()


def test_rows_that_move_elsewhere_count() -> None:
    work = FakeWork()
    watch = StallWatch(work, _SECONDS)

    with job_named("public.t"), watch.watching():
        for _ in range(12):
            work.hang(0.2)
            watch.note_progress("public.t")

    assert not work.ended.is_set()


def test_zero_seconds_watch_nothing() -> None:
    work = FakeWork()

    with StallWatch(work, 0).watching():
        work.hang(1)

    assert not work.ended.is_set()


@pytest.mark.timeout(900)
def test_spark_without_executor_or_frozen_is_ended_and_replaced() -> None:
    """The executor is gone, then the whole JVM stands still: both look healthy from outside."""
    sessions = SparkSessions(driver_memory="512m", class_archive=False, record_after=None)
    engine = SparkEngine("", sessions, stall_seconds=20)
    try:
        engine.run("SELECT a FROM {t}", _ROWS)
        first = sessions.pid
        _stop_executor(sessions)

        with pytest.raises(RefreshStalledError), job_named("public.t"):
            engine.run("SELECT a FROM {t}", _ROWS)

        assert engine.run("SELECT a FROM {t}", _ROWS).num_rows == 3
        second = sessions.pid
        assert second not in (None, first)
        assert second is not None
        os.kill(second, signal.SIGSTOP)

        # It is found dead before anything is computed: another one takes its place.
        with job_named("public.t"):
            assert engine.run("SELECT a FROM {t}", _ROWS).num_rows == 3

        assert sessions.pid not in (None, first, second)
    finally:
        engine.close()


def _stop_executor(sessions: SparkSessions) -> None:
    """Do what an attacker could through the driver's port, before it asked for a secret."""
    context = sessions.context
    assert context is not None
    jvm, port = context._jvm, context.getConf().get("spark.driver.port")
    assert jvm is not None
    assert port is not None
    conf = context._jsc.getConf()
    manager = jvm.org.apache.spark.SecurityManager  # which finds the secret in this JVM
    default = getattr(manager, "$lessinit$greater$default$3")()
    security = manager(conf, jvm.scala.Option.empty(), default)
    client = True
    create = jvm.org.apache.spark.rpc.RpcEnv.create
    insider = create("insider", "127.0.0.1", 0, conf, security, client)
    address = jvm.org.apache.spark.rpc.RpcAddress("127.0.0.1", int(port))
    message = jvm.java.lang.Class.forName("org.apache.spark.scheduler.local.StopExecutor$")
    endpoint = insider.setupEndpointRef(address, "LocalSchedulerBackendEndpoint")
    anything = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("java.lang.Object"))
    endpoint.askSync(message.getField("MODULE$").get(None), anything)
