"""Kafka: partitions are read from the places that the inbox's database keeps; no consumer group.

So the place and the messages are one transaction of PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from pgtrickle.errors import (
    OriginSetupError,
    OriginUnavailableError,
    PlaceLostError,
    TrickleError,
)
from pgtrickle.relay.inbound.definitions import InboundDefinition
from pgtrickle.relay.inbound.origins.origin import Arrived, Places
from pgtrickle.relay.sinks.sink import Options

_OURS: Final = frozenset({"group.id", "enable.auto.commit", "auto.offset.reset"})
_LOOK_FOR_PARTITIONS: Final = 30.0  # seconds
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
    }
)
_LOST: Final = frozenset(
    {
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._AUTO_OFFSET_RESET,  # noqa: SLF001
    }
)


class KafkaOrigin:
    """A topic of Kafka."""

    def __init__(self, definition: InboundDefinition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        servers, self._topic = taken.text("bootstrap_servers"), taken.text("topic")
        self._seconds = taken.number("timeout_seconds", 30, 1, 300)
        more = taken.values("config")
        taken.end()
        if wrong := _OURS & more.keys():
            raise taken.wrong("config", f"without {min(wrong)}, which the relay sets")
        self._settings = {
            "bootstrap.servers": servers,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 16_384,
            **more,
            "group.id": f"pgtrickle-inbound-{definition.name}",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
        }
        self._earliest = definition.start == "earliest"
        self._consumer: Consumer | None = None
        self._next: dict[int, int] = {}
        self._looked = 0.0

    def open(self, places: Places) -> Places:
        """Connect, and begin in each partition after its place."""
        self._consumer = Consumer(self._settings)
        begun: dict[str, str] = {}
        later = any(one.rpartition("/")[0] == self._topic for one in places)
        try:
            for number in self._partitions():
                known = places.get(self._part(number))
                first, last = self._ends(number)
                if known is None:
                    # A partition that came later is read from its beginning.
                    place = first - 1 if self._earliest or later else last - 1
                    begun[self._part(number)] = str(place)
                else:
                    place = int(known)
                    if not first - 1 <= place < last:
                        raise self._lost(number, place)
                self._next[number] = place + 1
            self._consumer.assign(
                [TopicPartition(self._topic, one, offset) for one, offset in self._next.items()]
            )
        except KafkaException as error:
            raise self._error_for(error.args[0]) from None
        self._looked = time.monotonic()
        return begun

    def _part(self, number: int) -> str:
        return f"{self._topic}/{number}"

    def _partitions(self) -> list[int]:
        if self._consumer is None:
            raise OriginUnavailableError("Kafka is not connected")
        found = self._consumer.list_topics(self._topic, timeout=self._seconds).topics[self._topic]
        if found.error is not None:
            raise KafkaException(found.error)
        return sorted(found.partitions)

    def _ends(self, number: int, *, cached: bool = False) -> tuple[int, int]:
        if self._consumer is None:
            raise OriginUnavailableError("Kafka is not connected")
        at = TopicPartition(self._topic, number)
        # None after the time is over, whatever the library's types say.
        found: Any = self._consumer.get_watermark_offsets(at, timeout=self._seconds, cached=cached)
        if found is None:
            raise OriginUnavailableError("Kafka does not answer now")
        first, last = found
        return first, last

    def fetch(self, most: int, seconds: float) -> Sequence[Arrived]:
        """Return the next messages; look for new partitions now and then."""
        if self._consumer is None:
            raise OriginUnavailableError("Kafka is not connected")
        try:
            if time.monotonic() - self._looked > _LOOK_FOR_PARTITIONS:
                self._looked = time.monotonic()
                if self._partitions() != sorted(self._next):
                    raise OriginUnavailableError(f"the topic {self._topic} has other partitions")
            messages = self._consumer.consume(most, seconds)
        except KafkaException as error:
            raise self._error_for(error.args[0]) from None
        return [self._arrived(one) for one in messages]

    def _arrived(self, message: Message) -> Arrived:
        if (error := message.error()) is not None:
            if error.code() in _LOST:
                number = message.partition() or 0
                raise self._lost(number, self._next.get(number, 0) - 1)
            raise self._error_for(error)
        number, offset = message.partition() or 0, message.offset() or 0
        self._next[number] = offset + 1
        told: Any = message.headers() or ()
        headers = {
            name: value.decode(errors="replace") for name, value in told if isinstance(value, bytes)
        }
        id_ = headers.get("id") or f"{self._topic}:{number}:{offset}"
        key, value = message.key(), message.value()
        return Arrived(self._part(number), str(offset), id_, _bytes(key), _bytes(value), headers)

    def settle(self, arrived: Sequence[Arrived]) -> None:
        """Do nothing: the place is in the database of the inbox."""

    def lag(self) -> int | None:
        """Return how many messages the partitions have after what was read."""
        ends = {number: self._ends(number, cached=True)[1] for number in self._next}
        if any(last < 0 for last in ends.values()):
            return None
        return sum(max(0, ends[number] - offset) for number, offset in self._next.items())

    def close(self) -> None:
        """Leave."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _lost(self, number: int, place: int) -> PlaceLostError:
        return PlaceLostError(
            f"partition {number} of the topic {self._topic} has no messages after {place}",
            hint="Let it begin again: pgtrickle inbound resume PIPELINE --again.",
        )

    def _error_for(self, error: KafkaError) -> TrickleError:
        if error.code() in _SETUP:
            return OriginSetupError(
                f"Kafka refuses the topic {self._topic}: {error.name()}",
                hint="Create the topic, and check the credentials and rights of the pipeline.",
            )
        return OriginUnavailableError(f"Kafka does not answer now: {error.name()}")


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
