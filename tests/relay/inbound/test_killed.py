"""Relays that are killed while they receive: the inbox has each message once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.relay.inbound.brokers import BROKERS, Running, held, kafka, numbered, pipe
from tests.relay.inbound.test_brokers import come_once
from tests.seeds import seed_of

_SEED = seed_of("PGTRICKLE_RELAY_SEED", 2205)
_SOURCE = Path(__file__).parents[3] / "src"
_KILLS = 4


@contextmanager
def relay(dsn: str, log: Path) -> Iterator[None]:
    """Receive by a process, and kill it."""
    command = "from pgtrickle.cli.main import app; app()"
    environment = {"PYTHONPATH": str(_SOURCE), "PGTRICKLE_DSN": dsn, "PGTRICKLE_LEASE_SECONDS": "2"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", command, "inbound", "run"],
            env=os.environ | environment,
            stdout=output,
            stderr=output,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("running", BROKERS)
def test_nothing_is_lost_or_comes_twice(postgres_lab: Lab, tmp_path: Path, running: Running):
    lab, draw = postgres_lab, random.Random(f"{_SEED} {running.__name__}")
    with running(tmp_path) as broker:
        pipe(lab, broker, max_inflight=5)
        sent = 0
        for _ in range(_KILLS):
            before = len(held(lab))
            broker.send(numbered(*range(sent, sent + 40), *draw.choices(range(sent + 1), k=10)))
            sent += 40
            with relay(lab.trickle.dsn, tmp_path / "relay.log"):
                await_(partial(_has_more, lab, before))
                time.sleep(draw.uniform(0, 0.2))
        broker.send(numbered(*draw.choices(range(sent), k=10)))
        with relay(lab.trickle.dsn, tmp_path / "relay.log"):
            await_(lambda: len(held(lab)) == sent)
        assert held(lab) == list(range(sent))
    assert "Traceback" not in (tmp_path / "relay.log").read_text()


def _has_more(lab: Lab, before: int) -> bool:
    return len(held(lab)) > before


def test_kafka_comes_once(postgres_lab: Lab, tmp_path: Path):
    come_once(postgres_lab, tmp_path, kafka)
