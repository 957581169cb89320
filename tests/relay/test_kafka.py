"""A topic of Kafka holds each message once, and the relay's place with it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from pgtrickle.relay.envelopes import Envelope, decode
from tests.labs.lab import Lab
from tests.relay.receiver import Receiver
from tests.relay.servers import free_port, kafka_server
from tests.relay.shop import deliver, open_shop, status, write


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("kafka")
    with kafka_server(folder, free_port(), free_port()) as address:
        yield address


@pytest.fixture
def topic(broker: str, request: pytest.FixtureRequest) -> str:
    return make_topic(broker, f"changes-{abs(hash(request.node.name))}")


def make_topic(broker: str, name: str, partitions: int = 3, largest: int = 20_000) -> str:
    """Create a topic, with small messages."""
    config = {"max.message.bytes": str(largest)}
    admin = AdminClient({"bootstrap.servers": broker})
    [made] = admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values()
    made.result(30)
    return name


def read(broker: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return the committed records of a topic, each partition in its order."""
    return [(key, value) for _, key, value in read_all(broker, topic)]


def read_all(broker: str, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return the same, each with its partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    found: list[tuple[int, bytes | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(3)])
        ended: set[int | None] = set()
        while len(ended) < 3:
            record = consumer.poll(30)
            assert record is not None
            if record.error() is not None:
                ended.add(record.partition())
            else:
                found.append((record.partition() or 0, record.key(), record.value()))
    finally:
        consumer.close()
    return found


def rebuild(records: list[tuple[bytes | None, bytes | None]]) -> Receiver:
    """Apply the messages of all partitions in the order of the stream."""
    texts = [value for _, value in records if value is not None]
    receiver = Receiver()
    receiver.take(sorted(texts, key=lambda text: decode(text, Envelope.PLAIN).place))
    return receiver


def _create(lab: Lab, broker: str, topic: str, name: str = "keyed", **more: Any) -> None:
    options = {"bootstrap_servers": broker, "topic": topic, **more.pop("options", {})}
    lab.trickle.relay.create_relay_pipeline(
        "p", name, "kafka", options, sink_max_inflight=6, poll_ms=20, **more
    )


@pytest.mark.parametrize("name", ["keyed", "duplicates"])
def test_a_topic_holds_each_message_once(postgres_lab: Lab, broker: str, topic: str, name: str):
    lab, draw = postgres_lab, random.Random(f"kafka {name}")
    open_shop(lab, name)
    _create(lab, broker, topic, name)
    for number in range(3):
        deliver(lab)
        receiver = rebuild(read(broker, topic))
        receiver.check(lab, name)
        assert (receiver.repeated, status(lab).error) == (0, None)
        write(lab, draw, number)
        lab.trickle.refresh_stream_table(name)
        # As a relay leaves it that died before it could record its place.
        lab.run("UPDATE pgtrickle.pgt_relay_states SET outbox_id = 1, row_number = 0")


def test_a_key_is_in_one_partition_and_ends_with_a_tombstone(
    postgres_lab: Lab, broker: str, topic: str
):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, broker, topic, options={"tombstones": True})
    deliver(lab)
    lab.run("UPDATE t SET note = 'x' WHERE id = 5", "DELETE FROM t WHERE id = 6")
    lab.refresh("keyed")
    deliver(lab)
    last = dict(read(broker, topic))
    assert last[b'{"id": 6}'] is None
    present = [key for key, value in last.items() if value is not None]
    assert len(present) - 1 == lab.value("SELECT count(*) FROM keyed")  # the reset has a key, too


def test_a_message_that_is_too_large_is_set_aside(postgres_lab: Lab, broker: str, topic: str):
    lab, relay = postgres_lab, postgres_lab.trickle.relay
    open_shop(lab, "keyed")
    _create(lab, broker, topic, on_poison="dead_letter", max_failures=1)
    deliver(lab)
    random_text = "(SELECT string_agg(md5(i::text || clock_timestamp()::text), '') FROM"
    lab.run(
        f"UPDATE t SET note = {random_text} generate_series(1, 1000) AS i) WHERE id = 5",
        "UPDATE t SET note = 'x' WHERE id = 6",
    )
    lab.refresh("keyed")
    deliver(lab)
    [letter] = relay.relay_dead_letters("p")
    assert (letter.key, letter.error_code) == ('{"id": 5}', "ST824")
    told = [decode(value, Envelope.PLAIN) for _, value in read(broker, topic) if value]
    assert any((one.after or {}).get("note") == "x" for one in told)


@pytest.mark.parametrize(
    "config", [{}, {"batch.size": 1_000_000}], ids=["it_tells_its_size", "batches_are_too_large"]
)
def test_a_topic_may_take_less_than_a_batch(
    postgres_lab: Lab, broker: str, topic: str, config: dict[str, int]
):
    lab = postgres_lab
    open_shop(lab, "keyed")
    lab.run("INSERT INTO t (id, v) SELECT i, 2 FROM generate_series(1000, 1300) AS i")
    lab.refresh("keyed")
    make_topic(broker, f"{topic}-small", largest=1_000)
    options = {"bootstrap_servers": broker, "topic": f"{topic}-small", "config": config}
    lab.trickle.relay.create_relay_pipeline("p", "keyed", "kafka", options, on_poison="dead_letter")
    deliver(lab)
    receiver = rebuild(read(broker, f"{topic}-small"))
    receiver.check(lab, "keyed")
    found = status(lab)
    assert (found.error, found.retries, found.dead_letters) == (None, 0, 0)
    assert receiver.repeated == 0


def test_a_missing_topic_is_told(postgres_lab: Lab, broker: str):
    lab = postgres_lab
    open_shop(lab, "keyed")
    _create(lab, broker, "nowhere")
    deliver(lab)
    found = status(lab)
    assert (found.error_code, found.hint is not None) == ("ST823", True)
