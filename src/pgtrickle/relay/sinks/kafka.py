"""Kafka: messages and the place of the last one are committed in one transaction.

The place is the metadata of an offset that a consumer group of the pipeline commits.  The key of a
record is the unique key, so the changes of a key are in one partition; a deleted row is followed by
a tombstone, if the topic is compacted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pgtrickle.errors import SinkSetupError, SinkUnavailableError, TrickleError
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import CONTENT_TYPES, encode
from pgtrickle.relay.messages import Message, Op, Place, Schema, Stream, read_id
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal

_OURS: Final = frozenset({"transactional.id", "enable.idempotence", "group.id"})
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})
_SETUP: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - the library's name of it
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


class KafkaSink:
    """A topic of Kafka."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        servers, self._topic = taken.text("bootstrap_servers"), taken.text("topic")
        self._tombstones = taken.flag("tombstones", default=False)
        self._seconds = taken.number("timeout_seconds", 30, 1, 300)
        more = taken.values("config")
        taken.end()
        if wrong := _OURS & more.keys():
            raise taken.wrong("config", f"without {min(wrong)}, which the relay sets")
        self._envelope = definition.envelope
        self._group = f"pgtrickle-relay-{definition.name}"
        self._common = {"bootstrap.servers": servers, **more}
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._failed: list[KafkaError] = []
        self._headers = [("content-type", CONTENT_TYPES[definition.envelope].encode())]

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Connect, fence every earlier relay of the pipeline, and read the place."""
        try:
            self._consumer = Consumer(
                {
                    **self._common,
                    "group.id": self._group,
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                }
            )
            topics = self._consumer.list_topics(self._topic, timeout=self._seconds).topics
            if (missing := topics[self._topic].error) is not None:
                raise KafkaException(missing)  # noqa: TRY301 - as the library's own
            producer = Producer(
                {
                    **self._common,
                    "transactional.id": f"{self._group}-{self._topic}",
                    "transaction.timeout.ms": int(self._seconds * 1000),
                    "linger.ms": 5,
                }
            )
            producer.init_transactions(self._seconds)
            self._producer = producer
            at = [TopicPartition(self._topic, 0)]
            [found] = self._consumer.committed(at, timeout=self._seconds)
        except KafkaException as error:
            raise self._error_for(error.args[0]) from None
        if not found.metadata:
            return None
        pgt_id, place = read_id(found.metadata)
        return place if pgt_id == stream.pgt_id else None

    def send(self, messages: Sequence[Message]) -> None:
        """Commit messages and the place of the last one together."""
        producer, consumer = self._producer, self._consumer
        if producer is None or consumer is None:
            raise SinkUnavailableError("Kafka is not connected")
        self._failed.clear()
        try:
            producer.begin_transaction()
            for message in messages:
                self._produce(producer, message)
            producer.flush(self._seconds)
            self._check_delivered()
            if not messages[-1].replayed:  # then its place is an older one
                place = [TopicPartition(self._topic, 0, 0, messages[-1].id)]
                metadata = consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction(place, metadata, self._seconds)
            producer.commit_transaction(self._seconds)
        except KafkaException as error:
            raise self._refused(producer, error.args[0], messages) from None

    def _produce(self, producer: Producer, message: Message) -> None:
        key = None if message.key is None else message.key.encode()
        if key is None and message.op is Op.RESET:
            key = json.dumps({"reset": message.id}).encode()  # a compacted topic needs one
        headers = [("id", message.id.encode()), *self._headers]
        value = encode(message, self._envelope).encode()
        self._queue(producer, key, value, headers)
        if self._tombstones and message.op is Op.DELETE and key is not None:
            self._queue(producer, key, None, headers[:1])

    def _queue(
        self, producer: Producer, key: bytes | None, value: bytes | None, headers: list[Any]
    ) -> None:
        while True:
            try:
                producer.produce(
                    self._topic, value=value, key=key, headers=headers, on_delivery=self._told
                )
            except BufferError:
                producer.poll(0.1)
            else:
                producer.poll(0)
                return

    def _check_delivered(self) -> None:
        if self._failed:
            raise KafkaException(self._failed[0])

    def _told(self, error: KafkaError | None, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def _refused(
        self, producer: Producer, error: KafkaError, messages: Sequence[Message]
    ) -> TrickleError:
        if error.code() in _TOO_LARGE and not error.fatal():
            try:
                producer.abort_transaction(self._seconds)
            except KafkaException as abort:
                return self._error_for(abort.args[0])
            if len(messages) == 1:
                return refusal(0, f"the topic {self._topic} refuses a message: {error.name()}")
            for number, message in enumerate(messages):  # which one it is
                try:
                    self.send([message])
                except TrickleError as one:
                    if one.code == "ST824":
                        return refusal(number, str(one))
                    return one
        return self._error_for(error)

    def _error_for(self, error: KafkaError) -> TrickleError:
        if error.code() in _SETUP:
            return SinkSetupError(
                f"Kafka refuses the topic {self._topic}: {error.name()}",
                hint="Create the topic, and check the credentials and rights of the pipeline.",
            )
        return SinkUnavailableError(f"Kafka cannot take messages now: {error.name()}")

    def close(self) -> None:
        """Leave; a transaction that is open is aborted by the next relay of the pipeline."""
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = None
