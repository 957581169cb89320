"""A short chaos run for each broker; ``make relay-chaos`` makes long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.relay.chaos.brokers import BROKERS
from tests.relay.chaos.run import Plan, run


@pytest.mark.parametrize("name", BROKERS)
def test_a_consumer_holds_the_stream_table(tmp_path: Path, name: str):
    tmp_path.chmod(0o711)
    outcome = run(BROKERS[name], Plan(20, kills=2, restarts=1, cuts=2), tmp_path)

    assert outcome.done.total() == 5
    assert outcome.verdict.good(exact=BROKERS[name].exact), outcome
