"""The soak in small: the same kinds of everything, in seconds."""

from __future__ import annotations

import pgtrickle
from pgtrickle.settings import load_settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed
from tests.soak.run import LEASE_SECONDS, soak


def test_nothing_is_lost_and_nothing_comes_twice(database: str, duckdb_engine: DuckDbEngine):
    settings = load_settings(lease_seconds=LEASE_SECONDS)
    with pgtrickle.connect(database, engine=Borrowed(duckdb_engine), settings=settings) as trickle:
        outcome = soak(trickle, transactions=500, points=3, seed=7, kill_every=0.3)

    assert (outcome.lost, outcome.twice) == (0, 0)
    assert outcome.points == 3 + 2  # when the last transaction is through, and when all are ended
    assert outcome.transactions.keys() >= {"short", "rolled back", "savepoint", "prepared", "long"}
    assert outcome.actions["DIFFERENTIAL"] > 0
    assert outcome.kills > 0
