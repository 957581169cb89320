"""NATS JetStream: messages after the sequence number that the inbox's database keeps.

A consumer without a name begins there each time.  Its own numbers are without gaps; where they are
not, a message was lost on the way, and the relay begins again after its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error
from nats.errors import TimeoutError as NothingThereError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StreamInfo
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from pgtrickle.errors import (
    OriginSetupError,
    OriginUnavailableError,
    PlaceLostError,
    TrickleError,
)
from pgtrickle.relay.inbound.definitions import InboundDefinition
from pgtrickle.relay.inbound.origins.origin import Arrived, Places
from pgtrickle.relay.sinks.sink import Options

T = TypeVar("T")
_ACK_SECONDS: Final = 300.0


class NatsOrigin:
    """A subject that a stream of JetStream keeps."""

    def __init__(self, definition: InboundDefinition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._url, self._subject = taken.text("url"), taken.text("subject")
        self._named = taken.optional("stream")
        self._seconds = taken.number("timeout_seconds", 10, 0.1, 300)
        self._login: dict[str, Any] = {
            name: value
            for name in ("user", "password", "token")
            if (value := taken.optional(name)) is not None
        }
        credentials = taken.optional("credentials_file")
        if credentials is not None:
            self._login["user_credentials"] = credentials
        taken.end()
        self._earliest = definition.start == "earliest"
        self._most = definition.max_inflight
        self._loop: asyncio.Runner | None = None
        self._client: Client | None = None
        self._consumer: JetStreamContext.PullSubscription | None = None
        self._seen = 0  # of the consumer's own numbers
        self._lag: int | None = None

    def open(self, places: Places) -> Places:
        """Connect, and begin after the place."""
        self._loop = asyncio.Runner()
        known = places.get(self._subject)
        place = self._run(self._begin(None if known is None else int(known)))
        return {} if known is not None else {self._subject: str(place)}

    async def _begin(self, known: int | None) -> int:
        self._client = await nats.connect(
            self._url,
            allow_reconnect=False,
            connect_timeout=max(1, int(self._seconds)),
            error_cb=_ignore,
            **self._login,
        )
        stream = self._client.jetstream(timeout=self._seconds)
        name = self._named or await stream.find_stream_name_by_subject(self._subject)
        info: StreamInfo = await stream.stream_info(name)
        first, last = info.state.first_seq, info.state.last_seq
        place = known
        if place is None:
            place = first - 1 if self._earliest and first else last
        elif place > last or first > place + 1:
            raise PlaceLostError(
                f"the stream {name} of JetStream has not kept all messages after {place}",
                hint="Let it begin again: pgtrickle inbound resume PIPELINE --again.",
            )
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=place + 1,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=_ACK_SECONDS,
            max_ack_pending=2 * self._most,
            inactive_threshold=_ACK_SECONDS,
        )
        self._consumer = await stream.pull_subscribe(self._subject, stream=name, config=config)
        self._seen = 0
        return place

    def fetch(self, most: int, seconds: float) -> Sequence[Arrived]:
        """Return the next messages."""
        return [self._arrived(one) for one in self._run(self._fetch(most, seconds))]

    async def _fetch(self, most: int, seconds: float) -> list[Msg]:
        if self._consumer is None:
            raise OriginUnavailableError("NATS is not connected")
        try:
            return await self._consumer.fetch(most, timeout=max(0.05, seconds))
        except NothingThereError:
            if self._client is None or not self._client.is_connected:
                raise OriginUnavailableError("NATS does not answer now") from None
            return []

    def _arrived(self, message: Msg) -> Arrived:
        told = message.metadata
        if told.sequence.consumer != self._seen + 1 or told.num_delivered != 1:
            raise OriginUnavailableError("NATS has lost a message on the way: it is read again")
        self._seen = told.sequence.consumer
        self._lag = told.num_pending
        headers = dict(message.headers or {})
        place = str(told.sequence.stream)
        id_ = headers.get("Nats-Msg-Id") or f"{told.stream}:{place}"
        return Arrived(self._subject, place, id_, None, message.data, headers, message)

    def settle(self, arrived: Sequence[Arrived]) -> None:
        """Let the server forget its own record of what was delivered."""
        self._run(self._acknowledge(arrived))

    async def _acknowledge(self, arrived: Sequence[Arrived]) -> None:
        for one in arrived:
            await one.receipt.ack()

    def lag(self) -> int | None:
        """Return how many messages there were after the last one."""
        return self._lag

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise OriginUnavailableError("NATS is not connected")
        try:
            return self._loop.run(work)
        except (Error, OSError, TimeoutError) as error:
            raise self._error_for(error) from None  # its text may quote the URL

    def _error_for(self, error: BaseException) -> TrickleError:
        match error:
            case ServiceUnavailableError():
                return OriginUnavailableError("JetStream does not answer now")
            case NotFoundError():
                return OriginSetupError(
                    f"no stream of JetStream keeps the subject {self._subject}",
                    hint="Create the stream, with this subject.",
                )
            case APIError():
                return OriginSetupError(f"JetStream refuses: {str(error.description)[:80]}")
            case Error() if "uthorization" in str(error):
                return OriginSetupError("NATS refuses the credentials")
            case _:
                return OriginUnavailableError(f"NATS does not answer now: {type(error).__name__}")

    def close(self) -> None:
        """Close the connection."""
        if self._loop is not None:
            if self._client is not None:
                try:
                    self._loop.run(self._client.close())
                except (Error, OSError, TimeoutError):
                    self._client = None
            self._loop.close()
            self._loop = None


async def _ignore(_: Exception) -> None:
    """Let errors of the connection be told by what was asked of it."""
