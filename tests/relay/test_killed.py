"""Relays that are killed at any moment: what receivers hold is the stream table."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from redis import Redis

from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.servers import free_port, kafka_server, nats_server, redis_server
from tests.relay.shop import open_shop, status, write, write_file
from tests.relay.test_kafka import make_topic, read, rebuild
from tests.relay.test_nats import make_stream
from tests.relay.test_nats import read as read_stream
from tests.seeds import seed_of

_SEED = seed_of("PGTRICKLE_RELAY_SEED", 822)
_SOURCE = Path(__file__).parents[2] / "src"
_KILLS = 4
Check = Callable[[Lab], int]  # returns how many messages came again


@contextmanager
def relay(dsn: str, file: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a relay as a process, and kill it."""
    command = "from pgtrickle.cli.main import app; app()"
    arguments = [sys.executable, "-c", command, "relay", "run", "--config", str(file)]
    environment = {"PYTHONPATH": str(_SOURCE), "PGTRICKLE_DSN": dsn, "PGTRICKLE_LEASE_SECONDS": "2"}
    with log.open("ab") as output:
        process = subprocess.Popen(
            arguments, env=os.environ | environment, stdout=output, stderr=output
        )
    try:
        yield process
    except AssertionError:
        print(log.read_text()[-5_000:])  # why it does not go on
        raise
    finally:
        process.kill()
        process.wait()


@contextmanager
def to_file(folder: Path, _: str) -> Iterator[tuple[dict[str, Any], Check]]:
    lines = folder / "changes.jsonl"

    def check(lab: Lab) -> int:
        receiver = Receiver()
        receiver.take(lines.read_bytes().splitlines())
        receiver.check(lab, "keyed")
        return receiver.repeated

    yield {"sink": "file", "options": {"path": str(lines)}}, check


@contextmanager
def to_redis(folder: Path, _: str) -> Iterator[tuple[dict[str, Any], Check]]:
    with redis_server(folder, free_port()) as url, Redis.from_url(url) as client:

        def check(lab: Lab) -> int:
            receiver = Receiver()
            receiver.take([fields[b"value"] for _, fields in client.xrange("changes")])
            receiver.check(lab, "keyed")
            return receiver.repeated

        yield {"sink": "redis", "options": {"url": url, "stream": "changes"}}, check


@contextmanager
def to_kafka(folder: Path, _: str) -> Iterator[tuple[dict[str, Any], Check]]:
    with kafka_server(folder, free_port(), free_port()) as broker:
        topic = make_topic(broker, "changes")

        def check(lab: Lab) -> int:
            receiver = rebuild(read(broker, topic))
            receiver.check(lab, "keyed")
            return receiver.repeated

        yield {"sink": "kafka", "options": {"bootstrap_servers": broker, "topic": topic}}, check


@contextmanager
def to_nats(folder: Path, _: str) -> Iterator[tuple[dict[str, Any], Check]]:
    with nats_server(folder, free_port()) as url:
        make_stream(url)

        def check(lab: Lab) -> int:
            receiver = Receiver()
            receiver.take(read_stream(url))
            receiver.check(lab, "keyed")
            return receiver.repeated

        yield {"sink": "nats", "options": {"url": url, "subject": "changes.t"}}, check


@contextmanager
def to_postgres(_: Path, dsn: str) -> Iterator[tuple[dict[str, Any], Check]]:
    with psycopg.connect(dsn, autocommit=True) as there:
        there.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")

        def check(lab: Lab) -> int:
            held = there.execute("SELECT t::text FROM public.copy AS t").fetchall()
            assert Counter(held) == Counter(lab.rows("SELECT s::text FROM keyed AS s"))
            return 0

        yield {"sink": "postgres", "options": {"dsn": dsn, "table": "public.copy"}}, check


@pytest.mark.parametrize("receiver", [to_file, to_postgres, to_redis, to_kafka, to_nats])
def test_nothing_is_lost_or_comes_twice(
    postgres_lab: Lab,
    tmp_path: Path,
    empty_database: str,
    receiver: Callable[[Path, str], Any],
):
    lab, draw = postgres_lab, random.Random(f"{_SEED} {receiver.__name__}")
    open_shop(lab, "keyed")
    with receiver(tmp_path, empty_database) as (options, check):
        given = {"stream_table": "keyed", "sink_max_inflight": 3, "poll_ms": 10, **options}
        file = write_file(tmp_path / "relay.json", p=given)
        number, written = 0, 0
        for _ in range(_KILLS):
            with relay(lab.trickle.dsn, file, tmp_path / "relay.log"):
                await_(partial(_goes_on, lab, written))
                ends = time.monotonic() + draw.uniform(0, 0.4)
                while time.monotonic() < ends:
                    write(lab, draw, number)
                    lab.trickle.refresh_stream_table("keyed", full=number % 7 == 6)
                    number += 1
            written = _delivered(lab)
            write(lab, draw, number)
            lab.trickle.refresh_stream_table("keyed")
            number += 1
        with relay(lab.trickle.dsn, file, tmp_path / "relay.log"):
            await_(lambda: _is_even(lab))
        assert check(lab) == 0
    assert "Traceback" not in (tmp_path / "relay.log").read_text()


def _goes_on(lab: Lab, before: int) -> bool:
    return _delivered(lab) > before or _is_even(lab)


def _delivered(lab: Lab) -> int:
    return next((one.messages for one in lab.trickle.relay.relay_status("p")), 0)


def _is_even(lab: Lab) -> bool:
    found = lab.trickle.relay.relay_status("p")
    return bool(found) and status(lab).state == "streaming" and status(lab).lag_entries == 0
