"""Workers: as many at a time as may run, hot stream tables first, and nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import wait
from functools import partial

import pytest

from pgtrickle.errors import StorageFullError
from pgtrickle.model.scheduling.tier import Tier
from pgtrickle.scheduler.admission import Admission, Saturation
from pgtrickle.scheduler.workers import Job, Workers

PATIENCE = 30.0


class Held:
    """A job that occupies a worker until it is let go."""

    def __init__(self) -> None:
        self.began, self.over = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.began.set()
        assert self.over.wait(PATIENCE)


def test_hot_goes_first_and_old_work_before_new_heat():
    now, done = 0.0, list[str]()
    held = Held()
    with Workers(lambda: 1, clock=lambda: now) as workers:
        first = workers.submit(held)
        assert held.began.wait(PATIENCE)

        def submit(name: str, tier: Tier) -> None:
            workers.submit(Job(partial(done.append, name), tier))

        submit("cold", Tier.COLD)
        submit("warm", Tier.WARM)
        submit("hot", Tier.HOT)
        now = 29.0
        submit("hot later", Tier.HOT)
        now = 61.0
        submit("hot after a minute", Tier.HOT)
        held.over.set()
        first.result(PATIENCE)

    assert done == ["hot", "hot later", "warm", "cold", "hot after a minute"]


def test_no_more_run_than_may_and_more_when_more_may():
    limit = 2
    jobs = [Held() for _ in range(5)]
    with Workers(lambda: limit) as workers:
        futures = [workers.submit(job) for job in jobs]
        assert all(job.began.wait(PATIENCE) for job in jobs[:2])
        assert sum(future.running() for future in futures) == 2
        limit = 3
        assert jobs[2].began.wait(PATIENCE)
        limit = 1
        for job in jobs[:3]:
            job.over.set()
        wait(futures[:3], PATIENCE)
        assert jobs[3].began.wait(PATIENCE)
        assert not jobs[4].began.is_set()
        for job in jobs:
            job.over.set()

    assert all(future.done() for future in futures)


def test_errors_go_to_who_asked_and_the_end_takes_nothing_more():
    def fail() -> None:
        raise ValueError("no")

    with Workers(lambda: 2) as workers:
        failed = workers.submit(fail)
        with pytest.raises(ValueError, match="no"):
            failed.result(PATIENCE)
        assert workers.submit(lambda: 7).result(PATIENCE) == 7
    with pytest.raises(RuntimeError):
        workers.submit(fail)


def test_saturation_is_told_once_and_its_end():
    now = 0.0
    admission = Admission(lambda: 4, clock=lambda: now)
    assert admission.look(4, 3) is None
    now = 6.0
    assert admission.look(4, 5) == (Saturation("all workers are busy", 4, 5, 4, 4),)
    now = 7.0
    assert admission.look(4, 9) is None
    assert admission.look(1, 0) == (None,)
    assert admission.look(0, 0) is None


def test_room_that_lacks_halves_and_comes_back_step_by_step():
    admission = Admission(lambda: 8)
    for wanted in (4, 2, 1, 1):
        admission.note_error(StorageFullError("no connection left"))
        assert admission.limit == wanted
    for wanted in range(2, 9):
        for _ in range(3):
            admission.note_success()
        assert admission.limit == wanted
