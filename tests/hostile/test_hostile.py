"""Each attack of the hostile soak once, beside customers and refreshes on DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pgtrickle
from pgtrickle.errors import TrickleError
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.restartable import OwnServer
from tests.hostile.run import run, settle
from tests.hostile.town import Town, open_town


@contextmanager
def _refreshing(town: Town) -> Iterator[None]:
    """Refresh unit after unit, as a daemon does, until the block ends."""
    done = threading.Event()

    def refresh() -> None:
        with pgtrickle.connect(town.dsn_of("keeper"), engine=DuckDbEngine()) as trickle:
            while not done.is_set():
                for unit in trickle.daemon.shape().units:
                    try:
                        trickle.daemon.refresh_unit(unit.members)
                    except (
                        TrickleError
                    ):  # of those that the landlord owns; the others are looked at
                        done.wait(0.1)

    thread = threading.Thread(target=refresh)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_nobody_comes_to_harm(own_server: OwnServer) -> None:
    town = open_town(own_server.dsn)
    with _refreshing(town):
        outcome = run(town, seconds=20, rate=20, seed=1, tell=print)
        settle(town, outcome)

    assert outcome.complaints(longest=60) == []
    assert len(outcome.attacks) > 8
