"""A stream of Redis holds each message once, whatever dies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.servers import free_port, redis_server
from tests.relay.shop import deliver, open_shop, relaying, status, write


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with redis_server(tmp_path, free_port()) as url:
        yield url


def values(client: Redis) -> list[bytes]:
    """Return what the stream holds."""
    entries: Any = client.xrange("changes")
    return [fields[b"value"] for _, fields in entries]


def _create(lab: Lab, url: str, name: str = "keyed", **options: object) -> None:
    lab.trickle.relay.create_relay_pipeline(
        "p",
        name,
        "redis",
        {"url": url, "stream": "changes", **options},
        sink_max_inflight=6,
        poll_ms=20,
    )


@pytest.mark.parametrize("name", ["keyed", "duplicates"])
def test_a_stream_holds_each_message_once(postgres_lab: Lab, url: str, name: str):
    lab, draw = postgres_lab, random.Random(f"redis {name}")
    open_shop(lab, name)
    _create(lab, url, name)
    with Redis.from_url(url) as client:
        for number in range(4):
            deliver(lab)
            receiver = Receiver()
            receiver.take(values(client))
            receiver.check(lab, name)
            assert (receiver.repeated, status(lab).error) == (0, None)
            write(lab, draw, number)
            lab.trickle.refresh_stream_table(name)
            # As a relay leaves it that died before it could record its place.
            lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = 1, row_number = 0")


def test_redis_may_be_away(postgres_lab: Lab, tmp_path: Path):
    lab, port = postgres_lab, free_port()
    open_shop(lab, "keyed")
    with redis_server(tmp_path, port) as url:
        _create(lab, url)
        deliver(lab)
    with relaying(lab) as wait:
        lab.run("UPDATE t SET note = 'changed'")
        lab.refresh("keyed")
        await_(lambda: status(lab).error_code == "ST822")
        with redis_server(tmp_path, port) as url, Redis.from_url(url) as client:
            wait()
            receiver = Receiver()
            receiver.take(values(client))
            receiver.check(lab, "keyed")
            assert receiver.repeated == 0


def test_what_redis_has_lost_is_not_skipped(postgres_lab: Lab, url: str):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, url)
    with Redis.from_url(url) as client:
        kept: Any = None
        for note in ("first", "second"):
            deliver(lab)
            kept = client.dump("changes")
            lab.run(f"UPDATE t SET note = '{note}'")
            lab.refresh("keyed")
        deliver(lab)
        client.restore("changes", 0, kept, replace=True)  # as from a backup of before
        deliver(lab)
        receiver = Receiver()
        receiver.take(values(client))
        receiver.check(lab, "keyed")
        client.restore("changes", 0, kept, replace=True)
        lab.run("DELETE FROM pgtrickle.pgt_outbox_entries")  # as pruning, after the retention
        deliver(lab)
        assert (status(lab).state, status(lab).error_code) == ("needs_snapshot", "ST802")


@pytest.mark.parametrize("foreign", ["list", "stream"])
def test_a_key_of_others_is_left_alone(postgres_lab: Lab, url: str, foreign: str):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, url)
    with Redis.from_url(url) as client:
        if foreign == "list":
            client.lpush("changes", "mine")
        else:
            client.xadd("changes", {"mine": "1"})
        deliver(lab)
        assert status(lab).error_code == {"list": "ST823", "stream": "ST825"}[foreign]
        assert client.exists("changes") == 1
        assert client.type("changes") == foreign.encode()
        assert foreign == "list" or client.xlen("changes") == 1


def test_bad_credentials_are_told(postgres_lab: Lab, url: str):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, url.replace("redis://", "redis://nobody:t0psecret@"))
    deliver(lab)
    found = status(lab)
    assert found.error_code == "ST823"
    assert "t0psecret" not in str(found)
