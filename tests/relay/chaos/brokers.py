"""The brokers that a chaos run knows: how each starts, and what it holds at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from tests.relay.servers import (
    free_port,
    kafka_server,
    nats_server,
    rabbitmq_server,
    redis_server,
)
from tests.relay.test_kafka import make_topic, read_all
from tests.relay.test_nats import make_stream
from tests.relay.test_nats import read as read_stream
from tests.relay.test_rabbitmq import declare, take


@dataclass(frozen=True, slots=True)
class Broker:
    """One kind of broker, behind a wire: ``port`` is its own, ``wire`` that of the wire."""

    serve: Callable[[Path, int, int], AbstractContextManager[object]]
    prepare: Callable[[int], object]
    options: Callable[[int], dict[str, Any]]
    read: Callable[[int], list[list[bytes]]]  # by partition, in order
    exact: bool  # whether it holds each message once


@contextmanager
def _kafka(folder: Path, port: int, wire: int) -> Iterator[None]:
    with kafka_server(folder, port, free_port(), advertised=wire):
        yield


def _read_kafka(wire: int) -> list[list[bytes]]:
    parts: dict[int, list[bytes]] = {}
    for partition, _, value in read_all(f"127.0.0.1:{wire}", "changes"):
        parts.setdefault(partition, []).append(value or b"")
    return list(parts.values())


def _read_redis(wire: int) -> list[list[bytes]]:
    with Redis(port=wire) as client:
        found: Any = client.xrange("changes")
        return [[fields[b"value"] for _, fields in found]]


BROKERS: Mapping[str, Broker] = {
    "kafka": Broker(
        _kafka,
        lambda wire: make_topic(f"127.0.0.1:{wire}", "changes"),
        lambda wire: {
            "sink": "kafka",
            "options": {"bootstrap_servers": f"127.0.0.1:{wire}", "topic": "changes"},
        },
        _read_kafka,
        exact=True,
    ),
    "redis": Broker(
        lambda folder, port, _: redis_server(folder, port),
        lambda _: None,
        lambda wire: {
            "sink": "redis",
            "options": {"url": f"redis://127.0.0.1:{wire}/0", "stream": "changes"},
        },
        _read_redis,
        exact=True,
    ),
    "nats": Broker(
        lambda folder, port, _: nats_server(folder, port),
        lambda wire: make_stream(f"nats://127.0.0.1:{wire}"),
        lambda wire: {
            "sink": "nats",
            "options": {"url": f"nats://127.0.0.1:{wire}", "subject": "changes.t"},
        },
        lambda wire: [read_stream(f"nats://127.0.0.1:{wire}")],
        exact=True,
    ),
    "rabbitmq": Broker(
        lambda folder, port, _: rabbitmq_server(folder, port),
        lambda wire: declare(f"amqp://guest:guest@127.0.0.1:{wire}/", "changes"),
        lambda wire: {
            "sink": "rabbitmq",
            "options": {
                "url": f"amqp://guest:guest@127.0.0.1:{wire}/",
                "routing_key": "changes",
            },
        },
        lambda wire: [take(f"amqp://guest:guest@127.0.0.1:{wire}/", "changes")],
        exact=False,
    ),
}
