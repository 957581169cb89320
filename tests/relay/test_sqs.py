"""A FIFO queue of SQS gets each message once within its window; so does one behind a FIFO topic."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from pgtrickle.relay.envelopes import Envelope, decode
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.shop import deliver, open_shop, status, write


@pytest.fixture
def queue() -> Iterator[tuple[Any, str, dict[str, dict[str, Any]]]]:
    """Yield a client, a queue, and the options of pipelines that lead there."""
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
    made = client.create_queue(QueueName="changes.fifo", Attributes={"FifoQueue": "true"})
    topics = boto3.client("sns", **options)
    topic = topics.create_topic(Name="changes.fifo", Attributes={"FifoTopic": "true"})["TopicArn"]
    topics.subscribe(
        TopicArn=topic,
        Protocol="sqs",
        Endpoint="arn:aws:sqs:eu-west-1:123456789012:changes.fifo",
        Attributes={"RawMessageDelivery": "true"},
    )
    url = made["QueueUrl"]
    try:
        yield (
            client,
            url,
            {"sqs": {**options, "queue_url": url}, "sns": {**options, "topic_arn": topic}},
        )
    finally:
        topics.close()
        client.close()
        server.stop()


def read(client: Any, url: str) -> list[str]:
    """Take everything out of a queue."""
    found: list[str] = []
    while batch := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for one in batch:
            found.append(one["Body"])
            client.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    return found


@pytest.mark.parametrize(
    ("sink", "name"), [("sqs", "keyed"), ("sqs", "duplicates"), ("sns", "keyed")]
)
def test_a_queue_gets_each_message_once(
    postgres_lab: Lab, queue: tuple[Any, str, dict[str, dict[str, Any]]], sink: str, name: str
):
    lab, draw = postgres_lab, random.Random(f"{sink} {name}")
    client, url, options = queue
    open_shop(lab, name)
    lab.trickle.relay.create_relay_pipeline("p", name, sink, options[sink], sink_max_inflight=25)
    receiver = Receiver()
    for number in range(3):
        deliver(lab)
        assert status(lab).error is None
        # As a relay leaves it that died before it could record its place.
        lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = NULL, sent_outbox_id = NULL")
        deliver(lab)
        texts = read(client, url)
        keys = [decode(text, Envelope.PLAIN) for text in texts]
        assert len({one.id for one in keys}) == len(keys)
        receiver.take(sorted(texts, key=lambda text: decode(text, Envelope.PLAIN).place))
        receiver.check(lab, name)
        write(lab, draw, number)
        lab.trickle.refresh_stream_table(name)


def test_a_topic_that_is_missing_is_told(
    postgres_lab: Lab, queue: tuple[Any, str, dict[str, dict[str, Any]]]
):
    lab, (_, _, options) = postgres_lab, queue
    open_shop(lab, "keyed")
    given = {**options["sns"], "topic_arn": options["sns"]["topic_arn"].replace("changes", "none")}
    lab.trickle.relay.create_relay_pipeline("p", "keyed", "sns", given)
    deliver(lab)
    assert status(lab).error_code == "ST823"
    assert "s3cret" not in str(status(lab))
