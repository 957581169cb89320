"""One look at a time: what never answers keeps a thread, and nobody who asks."""

from __future__ import annotations

import threading
import time

import pytest

from pgtrickle.errors import ConnectionLostError, InternalError
from pgtrickle.service.insight.one_look import OneLook, TakesTooLong


def test_all_who_ask_meanwhile_share_a_look_and_wait_no_longer_than_it_may_take() -> None:
    began, go_on = [], threading.Event()

    def look() -> int:
        began.append(1)
        go_on.wait(60)
        return len(began)

    one = OneLook(look, "hanging")
    moment = time.monotonic()
    for _ in range(5):  # only the first waits
        with pytest.raises(TakesTooLong):
            one.read(0, 0.1)
    assert time.monotonic() - moment < 2
    assert len(began) == 1
    go_on.set()

    while len(began) == 1:
        one.read(0, 10)

    assert one.read(60, 0) == len(began)  # good for a minute: nobody looks again


@pytest.mark.parametrize(
    ("error", "told"),
    [(ConnectionLostError("away"), ConnectionLostError), (KeyError("x"), InternalError)],
)
def test_an_error_is_told_and_the_next_one_looks_again(
    error: Exception, told: type[Exception]
) -> None:
    errors = [error]

    def look() -> str:
        if errors:
            raise errors.pop()
        return "found"

    one = OneLook(look, "failing")

    with pytest.raises(told):
        one.read(60, 10)
    assert one.read(60, 10) == "found"
