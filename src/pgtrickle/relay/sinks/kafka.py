"""Kafka: messages and the place of the last one are committed in one transaction.

The place is the metadata of an offset that a consumer group of the pipeline commits.  The key of a
record is the unique key, so the changes of a key are in one partition; a deleted row is followed by
a tombstone, if the topic is compacted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ResourceType,
)

from pgtrickle.errors import (
    MessageRefusedError,
    SinkSetupError,
    SinkUnavailableError,
    TrickleError,
)
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import CONTENT_TYPES, encode
from pgtrickle.relay.messages import Message, Op, Place, Schema, Stream, read_id
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal

_OURS: Final = frozenset({"transactional.id", "enable.idempotence", "group.id"})
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD})
_SMALLER: Final = 16  # times, if the topic refuses a batch
_FLUSH_SECONDS: Final = 0.1
_MESSAGE_BYTES: Final = 1_000_000  # that the client takes, unless the topic takes more
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

_Told = Callable[[KafkaError | None, object], None]


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
        self._sizes: dict[str, int] = {}
        self._batch = _MESSAGE_BYTES
        self._told_size = False  # by the topic, and followed
        self._smaller: int | None = None  # the size of a batch that the topic takes
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
            self._producer = self._begin(self._find_sizes())
            at = [TopicPartition(self._topic, 0)]
            [found] = self._consumer.committed(at, timeout=self._seconds)
        except KafkaException as error:
            raise self._error_for(error.args[0]) from None
        if not found.metadata:
            return None
        pgt_id, place = read_id(found.metadata)
        return place if pgt_id == stream.pgt_id else None

    def _find_sizes(self) -> dict[str, int]:
        """Return how large messages and batches may be, as the topic says, if it may be asked."""
        asked = ConfigResource(ResourceType.TOPIC, self._topic)
        admin = AdminClient(self._common)
        try:
            [answer] = admin.describe_configs([asked], request_timeout=self._seconds).values()
            most = int(answer.result(self._seconds)["max.message.bytes"].value)
        except (
            KafkaException,
            TimeoutError,
        ):  # then batches get smaller until the topic takes them
            return {"batch.size": _MESSAGE_BYTES}
        largest = min(max(most, _MESSAGE_BYTES), 1_000_000_000)
        return {"message.max.bytes": largest, "batch.size": max(1, min(most, _MESSAGE_BYTES))}

    def _begin(self, sizes: dict[str, int]) -> Producer:
        """Make a producer, which fences every earlier one and ends its transaction."""
        settings: dict[str, Any] = {
            **sizes,
            **self._common,
            "transactional.id": f"{self._group}-{self._topic}",
            "transaction.timeout.ms": int(self._seconds * 1000),
            "linger.ms": 5,
        }
        if self._smaller is not None:
            settings["batch.size"] = self._smaller
        self._sizes, self._batch = sizes, int(settings["batch.size"])
        self._told_size = "message.max.bytes" in sizes and "batch.size" not in self._common
        producer = Producer(settings)
        producer.init_transactions(self._seconds)
        return producer

    def send(self, messages: Sequence[Message]) -> None:
        """Commit messages and the place of the last one together.

        A producer whose batch was refused does not go on: the next one begins anew.
        """
        failure = self._commit(messages)
        # Unless the topic told its size, it may be a batch that is too large.
        while failure is not None and self._batch > 1 and not self._told_size:
            self._smaller = max(1, self._batch // _SMALLER)
            self._restart()
            failure = self._commit(messages)
        if failure is None:
            return
        self._restart()
        if len(messages) == 1:
            raise refusal(0, f"the topic {self._topic} refuses a message: {failure.error.name()}")
        self._send_apart(messages, failure.at)

    def _send_apart(self, messages: Sequence[Message], at: int) -> None:
        """Send the messages before one, then that one, then the others."""
        done = 0
        for part in (messages[:at], messages[at : at + 1], messages[at + 1 :]):
            try:
                if part:
                    self.send(part)
            except (MessageRefusedError, SinkUnavailableError) as error:
                error.delivered += done
                raise
            done += len(part)

    def _restart(self) -> None:
        self._end_producer()
        try:
            self._producer = self._begin(self._sizes)
        except KafkaException as error:
            raise self._error_for(error.args[0]) from None

    def _commit(self, messages: Sequence[Message]) -> _TooLarge | None:
        """Commit messages in a transaction; return what is too large, with the transaction open."""
        producer, consumer = self._producer, self._consumer
        if producer is None or consumer is None:
            raise SinkUnavailableError("Kafka is not connected")
        failed: list[tuple[KafkaError, Any]] = []  # of this transaction alone

        def told(error: KafkaError | None, record: object) -> None:
            if error is not None:
                failed.append((error, record))

        at = 0
        try:
            producer.begin_transaction()
            for message in messages:
                self._produce(producer, message, told)
                at += 1
            ends = time.monotonic() + self._seconds
            while not failed and producer.flush(_FLUSH_SECONDS) and time.monotonic() < ends:
                pass
            if not failed:
                if not messages[-1].replayed:  # then its place is an older one
                    place = [TopicPartition(self._topic, 0, 0, messages[-1].id)]
                    metadata = consumer.consumer_group_metadata()
                    producer.send_offsets_to_transaction(place, metadata, self._seconds)
                producer.commit_transaction(self._seconds)
        except KafkaException as error:
            found: KafkaError = error.args[0]
        else:
            if not failed:
                return None
            found = failed[0][0]
            at = _find_first([one for error, one in failed if error.code() in _TOO_LARGE], messages)
        if found.code() not in _TOO_LARGE or found.fatal():
            raise self._error_for(found)
        return _TooLarge(found, at)

    def _produce(self, producer: Producer, message: Message, told: _Told) -> None:
        key = None if message.key is None else message.key.encode()
        if key is None and message.op is Op.RESET:
            key = json.dumps({"reset": message.id}).encode()  # a compacted topic needs one
        headers = [("id", message.id.encode()), *self._headers]
        value = encode(message, self._envelope).encode()
        self._queue(producer, key, value, headers, told)
        if self._tombstones and message.op is Op.DELETE and key is not None:
            self._queue(producer, key, None, headers[:1], told)

    def _queue(
        self,
        producer: Producer,
        key: bytes | None,
        value: bytes | None,
        headers: list[Any],
        told: _Told,
    ) -> None:
        while True:
            try:
                producer.produce(
                    self._topic, value=value, key=key, headers=headers, on_delivery=told
                )
            except BufferError:
                producer.poll(0.1)
            else:
                return

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
        self._consumer = None
        self._end_producer()

    def _end_producer(self) -> None:
        if self._producer is not None:  # what it still holds would keep its threads
            self._producer.purge()
            self._producer.flush(0)
        self._producer = None


@dataclass(frozen=True, slots=True)
class _TooLarge:
    """A transaction that the topic does not take."""

    error: KafkaError
    at: int  # the number of a message that is too large, or of one in its batch


def _find_first(records: Sequence[Any], messages: Sequence[Message]) -> int:
    """Return the number of the first message that is among the records."""
    ids = {text for one in records for name, text in one.headers() or () if name == "id"}
    return next((at for at, one in enumerate(messages) if one.id.encode() in ids), 0)
