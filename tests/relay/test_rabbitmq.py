"""A queue of RabbitMQ gets every message in order; those that come again have the same id."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from pgtrickle.relay.messages import Op
from pgtrickle.relay.sinks.rabbitmq import _split
from tests.fixtures.daemons import await_
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.servers import free_port, rabbitmq_server
from tests.relay.shop import deliver, open_shop, relaying, status, write


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rabbitmq")


@pytest.fixture(scope="module")
def url(folder: Path, port: int) -> Iterator[str]:
    with rabbitmq_server(folder, port) as url:
        yield url


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return f"q{abs(hash(request.node.nodeid))}"


def ask(url: str, work: Callable[[AbstractChannel], Coroutine[Any, Any, Any]]) -> Any:
    """Return what is done in a channel of the server."""

    async def connect() -> Any:
        async with await aio_pika.connect(url) as connection:
            return await work(await connection.channel())

    return asyncio.run(connect())


def declare(url: str, queue: str, **arguments: Any) -> None:
    """Declare a queue that outlives the server."""
    ask(url, lambda channel: channel.declare_queue(queue, durable=True, arguments=arguments))


def take(url: str, queue: str) -> list[bytes]:
    """Take everything out of a queue."""

    async def fetch(channel: AbstractChannel) -> list[bytes]:
        held = await channel.get_queue(queue)
        found = []
        while (one := await held.get(fail=False, no_ack=True)) is not None:
            found.append(one.body)
        return found

    return list(ask(url, fetch))


def _create(lab: Lab, url: str, queue: str, name: str = "keyed", **more: Any) -> None:
    options = {"url": url, "routing_key": queue}
    given: dict[str, Any] = {"sink_max_inflight": 25, "options": options} | more
    lab.trickle.relay.create_relay_pipeline("p", name, "rabbitmq", or_replace=True, **given)


@pytest.mark.parametrize("name", ["keyed", "duplicates"])
def test_a_queue_gets_every_message_in_order(postgres_lab: Lab, url: str, queue: str, name: str):
    lab, draw, receiver = postgres_lab, random.Random(f"rabbitmq {name}"), Receiver()
    declare(url, queue)
    open_shop(lab, name)
    _create(lab, url, queue, name)
    for number in range(3):
        deliver(lab)
        assert status(lab).error is None
        found = receiver.take(take(url, queue))
        assert [one.place for one in found] == sorted(one.place for one in found)
        receiver.check(lab, name)
        write(lab, draw, number)
        lab.trickle.refresh_stream_table(name)
    assert receiver.repeated == 0
    # As a relay leaves it that died before it could record its place.
    lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = NULL, sent_outbox_id = NULL")
    deliver(lab)
    again = receiver.take(take(url, queue))
    assert again[0].op is Op.RESET
    receiver.check(lab, name)


def test_a_queue_that_is_full_is_waited_for_and_no_key_is_out_of_order(
    postgres_lab: Lab, url: str, queue: str
):
    lab = postgres_lab
    declare(url, queue, **{"x-max-length": 4, "x-overflow": "reject-publish"})
    open_shop(lab, "keyed")
    _create(lab, url, queue)
    found: list[bytes] = []
    with relaying(lab) as wait:
        await_(lambda: status(lab).error_code == "ST822")
        end = [False]

        def drained() -> bool:
            found.extend(take(url, queue))
            end[0] = status(lab).lag_entries == 0 and status(lab).state == "streaming"
            return end[0]

        await_(drained)
        wait()
    found += take(url, queue)
    receiver = Receiver()
    places: dict[str, Any] = {}
    kept = []
    for text in found:  # as docs/relay.md tells receivers to compare
        [one] = Receiver().take([text]) if b'"op": "reset"' in text else [_decoded(text)]
        if one.op is Op.RESET:
            places.clear()
        key = str(one.key)
        if key not in places or one.place > places[key]:
            places[key] = one.place
            kept.append((one.place, text))
    receiver.take([text for _, text in sorted(kept, key=lambda pair: pair[0])])
    receiver.check(lab, "keyed")


def _decoded(text: bytes) -> Any:
    from pgtrickle.relay.envelopes import Envelope, decode

    return decode(text, Envelope.PLAIN)


def test_what_is_missing_or_refused_is_told(postgres_lab: Lab, url: str, queue: str):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, url, queue)
    deliver(lab)
    assert status(lab).error_code == "ST823"  # there is no such queue
    assert "guest:" not in str(status(lab))
    _create(lab, url.replace("guest:guest", "guest:wr0ng"), queue)
    deliver(lab)
    assert status(lab).error_code == "ST823"
    assert "wr0ng" not in str(status(lab))
    _create(lab, f"amqp://guest:s3cret@127.0.0.1:{free_port()}/", queue)
    deliver(lab)
    assert status(lab).error_code == "ST822"
    assert "s3cret" not in str(status(lab))
    declare(url, queue)
    options = {"url": url, "routing_key": "nobody", "exchange": "amq.direct"}
    _create(lab, url, queue, options=options)
    deliver(lab)
    assert status(lab).error_code == "ST823"  # no queue is bound: nothing counts as delivered
    assert status(lab).messages == 0
    _create(lab, url, queue)
    deliver(lab)
    receiver = Receiver()
    receiver.take(take(url, queue))
    receiver.check(lab, "keyed")


def test_a_key_is_on_its_way_once(postgres_lab: Lab):
    class Keyed:
        def __init__(self, key: str | None) -> None:
            self.key = key

    keys: list[str | None] = ["a", "b", "a", "c", None, None, "a", "b"]
    flights = [[one.key for one in flight] for flight in _split([Keyed(key) for key in keys])]  # type: ignore[misc]
    assert flights == [["a", "b"], ["a", "c"], [None], [None], ["a", "b"]]
