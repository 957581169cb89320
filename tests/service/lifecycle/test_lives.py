"""Random lives of stream tables, as ``make fuzz-lifecycle`` plays them by the hundred.

``PGTRICKLE_LIVES`` says how many there are.
"""

from __future__ import annotations

import os

import pytest

from tests.fakes.engine import NoEngine
from tests.fixtures.engines import Borrowed
from tests.fuzz.lifecycle.grounds import Grounds, living
from tests.fuzz.lifecycle.play import live
from tests.fuzz.play import Outcome
from tests.seeds import seed_of

_LIVES = int(os.environ.get("PGTRICKLE_LIVES", "12"))
_SEED = seed_of("PGTRICKLE_LIVES_SEED", 20261119)


@pytest.fixture
def grounds(server_dsn: str, template_database: str) -> Grounds:
    return Grounds(
        server_dsn, template_database, lambda _: Borrowed(NoEngine()), living("postgres")
    )


@pytest.mark.parametrize("number", range(_LIVES))
def test_contents_are_right_after_every_step(grounds: Grounds, number: int):
    lived = live(grounds, _SEED, number)

    again = f"make fuzz-lifecycle SEED={_SEED} CASE={number}"
    assert not lived.played.outcome.failure, "\n".join([*lived.told, lived.played.reason, again])
    assert lived.played.outcome is Outcome.HELD, lived.played.reason
