"""A stream of JetStream holds each message once, whatever dies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.servers import free_port, nats_server
from tests.relay.shop import deliver, open_shop, status, write


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with nats_server(tmp_path, free_port()) as url:
        yield url


def make_stream(url: str, window: float = 0.1) -> None:
    """Create a stream whose window of ids is shorter than the test."""

    async def make() -> None:
        client = await nats.connect(url)
        await client.jetstream().add_stream(
            name="changes", subjects=["changes.>"], duplicate_window=window
        )
        await client.close()

    asyncio.run(make())


def read(url: str) -> list[bytes]:
    """Return what the stream holds."""

    async def fetch() -> list[bytes]:
        client = await nats.connect(url)
        stream = client.jetstream()
        last = (await stream.stream_info("changes")).state.last_seq
        found = [await stream.get_msg("changes", number + 1) for number in range(last)]
        await client.close()
        return [one.data or b"" for one in found]

    return asyncio.run(fetch())


def _create(lab: Lab, url: str, name: str = "keyed", **more: Any) -> None:
    options = {"url": url, "subject": "changes.t", **more}
    lab.trickle.relay.create_relay_pipeline("p", name, "nats", options, sink_max_inflight=6)


@pytest.mark.parametrize("name", ["keyed", "duplicates"])
def test_a_stream_holds_each_message_once(postgres_lab: Lab, url: str, name: str):
    lab, draw = postgres_lab, random.Random(f"nats {name}")
    open_shop(lab, name)
    make_stream(url)
    _create(lab, url, name)
    for number in range(3):
        deliver(lab)
        receiver = Receiver()
        receiver.take(read(url))
        receiver.check(lab, name)
        assert (receiver.repeated, status(lab).error) == (0, None)
        write(lab, draw, number)
        lab.trickle.refresh_stream_table(name)
        # As a relay leaves it that died before it could record its place.
        lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = 1, row_number = 0")


def test_a_server_that_was_restarted_goes_on(postgres_lab: Lab, tmp_path: Path):
    """The server forgets the ids of messages that are older than its window."""
    lab, port = postgres_lab, free_port()
    open_shop(lab, "keyed")
    with nats_server(tmp_path, port) as url:
        make_stream(url)
        _create(lab, url)
        deliver(lab)
        before = read(url)
    lab.window("UPDATE t SET note = 'later' WHERE id = 5")
    with nats_server(tmp_path, port) as url:
        deliver(lab)

        assert status(lab).error is None
        assert read(url)[: len(before)] == before
        receiver = Receiver()
        receiver.take(read(url))
        receiver.check(lab, "keyed")
        assert receiver.repeated == 0


def test_a_subject_without_stream_is_told(postgres_lab: Lab, url: str):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, url)
    deliver(lab)
    assert status(lab).error_code == "ST823"
    make_stream(url)
    deliver(lab)
    assert status(lab).error is None


def test_a_message_that_is_too_large_is_set_aside(postgres_lab: Lab, url: str):
    lab = postgres_lab
    open_shop(lab, "keyed")
    make_stream(url)
    lab.trickle.relay.create_relay_pipeline(
        "p",
        "keyed",
        "nats",
        {"url": url, "subject": "changes.t"},
        on_poison="dead_letter",
        max_failures=1,
    )
    deliver(lab)
    lab.run("UPDATE t SET note = repeat('x', 2000000) WHERE id = 5")
    lab.run("UPDATE t SET note = 'small' WHERE id = 6")
    lab.refresh("keyed")
    deliver(lab)
    [letter] = lab.trickle.relay.relay_dead_letters("p")
    assert (letter.key, letter.error_code) == ('{"id": 5}', "ST824")
    assert b'"note": "small"' in read(url)[-1]
