"""What makes no progress is ended with ST410: by cancelling it, else by ending Spark's JVM."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pgtrickle.errors import RefreshStalledError, Retry, SparkFailedError
from pgtrickle.ports import job_named
from pgtrickle.spark.watch.stall_watch import StallWatch

_SECONDS = 3.0  # a machine may be busy


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
        work.hang(2 * _SECONDS)

    assert not work.ended.is_set()


def test_rows_that_move_elsewhere_count() -> None:
    work = FakeWork()
    watch = StallWatch(work, _SECONDS)

    with job_named("public.t"), watch.watching():
        for _ in range(12):
            work.hang(0.5)
            watch.note_progress("public.t")

    assert not work.ended.is_set()


def test_zero_seconds_watch_nothing() -> None:
    work = FakeWork()

    with StallWatch(work, 0).watching():
        work.hang(1)

    assert not work.ended.is_set()


@pytest.mark.timeout(600)
def test_spark_without_executor_or_frozen_is_ended_and_replaced() -> None:
    """In a process of its own: here, others use the one Spark that a process can have."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.stall_for_real"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.splitlines()[-1] == "ended and replaced"
