"""Real brokers that inbound pipelines receive from, each with what sends messages to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import nats
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from moto.server import ThreadedMotoServer
from redis import Redis

from pgtrickle.model.streams.inbound import InboundStatus
from tests.labs.lab import Lab
from tests.relay.servers import free_port, kafka_server, nats_server, redis_server

Sent = tuple[str, str]  # an id, and a value


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker with one topic, stream or queue."""

    origin: str
    options: dict[str, Any]
    send: Callable[[Sequence[Sent]], None]


Running = Callable[[Path], AbstractContextManager[Broker]]


@contextmanager
def redis(folder: Path) -> Iterator[Broker]:
    with redis_server(folder, free_port()) as url, Redis.from_url(url) as client:

        def send(messages: Sequence[Sent]) -> None:
            for id_, value in messages:
                client.xadd("mail", {"id": id_, "key": id_, "value": value})

        yield Broker("redis", {"url": url, "stream": "mail"}, send)


@contextmanager
def kafka(folder: Path) -> Iterator[Broker]:
    with kafka_server(folder, free_port(), free_port()) as servers:
        admin = AdminClient({"bootstrap.servers": servers})
        [made] = admin.create_topics([NewTopic("mail", 3, 1)]).values()
        made.result(30)
        producer = Producer({"bootstrap.servers": servers})

        def send(messages: Sequence[Sent]) -> None:
            for id_, value in messages:
                producer.produce("mail", value, id_, headers=[("id", id_.encode())])
            producer.flush(30)

        yield Broker("kafka", {"bootstrap_servers": servers, "topic": "mail"}, send)


@contextmanager
def jetstream(folder: Path) -> Iterator[Broker]:
    with nats_server(folder, free_port()) as url, asyncio.Runner() as loop:
        client = loop.run(nats.connect(url))
        stream = client.jetstream()
        loop.run(stream.add_stream(name="mail", subjects=["mail.>"], duplicate_window=0.1))

        async def publish(messages: Sequence[Sent]) -> None:
            for id_, value in messages:
                # Twice the same id in the stream: as after the server's own window.
                await stream.publish("mail.in", value.encode(), headers={"id": id_})

        def send(messages: Sequence[Sent]) -> None:
            loop.run(publish(messages))

        try:
            yield Broker("nats", {"url": url, "subject": "mail.in", "id_field": "id"}, send)
        finally:
            loop.run(client.close())


@contextmanager
def sqs(folder: Path) -> Iterator[Broker]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "endpoint_url": f"http://{host}:{port}",
        "region_name": "eu-west-1",
        "aws_access_key_id": "relay",
        "aws_secret_access_key": "s3cret",
    }
    client = boto3.client("sqs", **options)
    url = client.create_queue(QueueName="mail")["QueueUrl"]

    def send(messages: Sequence[Sent]) -> None:
        for id_, value in messages:
            told = {"id": {"DataType": "String", "StringValue": id_}}
            client.send_message(QueueUrl=url, MessageBody=value, MessageAttributes=told)

    try:
        yield Broker("sqs", {**options, "queue_url": url}, send)
    finally:
        client.close()
        server.stop()


BROKERS: tuple[Running, ...] = (redis, jetstream, sqs, kafka)


def numbered(*numbers: int) -> list[Sent]:
    """Return messages with ids and values that go with them."""
    return [(f"m{one}", json.dumps({"id": f"m{one}", "n": one})) for one in numbers]


def held(lab: Lab) -> list[int]:
    """Return the numbers of the messages that the inbox has."""
    found = [int(one) for (one,) in lab.rows("SELECT payload ->> 'n' FROM mail")]
    return sorted(found)


def status(lab: Lab, name: str = "p") -> InboundStatus:
    """Return what an inbound pipeline does."""
    [found] = lab.trickle.inbound.inbound_status(name)
    return found


def pipe(lab: Lab, broker: Broker, **more: Any) -> None:
    """Let a relay receive from a broker into the inbox ``mail``."""
    if lab.value("SELECT to_regclass('mail')") is None:
        lab.trickle.inbox.create_inbox("mail", with_stats=False, with_dead_letter=False)
    options = {**broker.options, **more.pop("options", {})}
    lab.trickle.inbound.create_inbound_pipeline(
        "p", "mail", broker.origin, options, poll_ms=20, or_replace=True, **more
    )
