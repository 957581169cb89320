"""NATS JetStream: each message with its id, which the server takes once within its window.

A message is taken only after the one before it, by the number that the stream gave that one:
numbers outlive a restart of the server, ids do not.  The last message of the stream tells the
place.  So a message comes once also after the window, for one relay and a stream of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, Final, TypeVar

import nats
from nats.aio.client import Client
from nats.errors import Error, MaxPayloadError
from nats.js.api import StreamInfo
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from pgtrickle.errors import (
    EnvelopeError,
    MessageRefusedError,
    SinkSetupError,
    SinkUnavailableError,
    TrickleError,
)
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import encode
from pgtrickle.relay.messages import Message, Place, Schema, Stream, read_id
from pgtrickle.relay.sinks.loop_thread import LoopThread
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal

T = TypeVar("T")

_PLACE: Final = "Pgtrickle-Place"


class NatsSink:
    """A subject that a stream of JetStream keeps."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
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
        self._envelope = definition.envelope
        self._loop: LoopThread | None = None
        self._client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._number = 0  # of the last message of the stream
        self._place: str | None = None  # of the last one that is no dead letter

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Connect, and look at the last message of the stream."""
        self._loop = LoopThread("relay to NATS")
        self._number, self._place = self._run(self._connect())
        if self._place is None:
            return None
        pgt_id, place = read_id(self._place)
        if pgt_id != stream.pgt_id:
            raise EnvelopeError(
                f"the stream of {self._subject} holds messages of another stream table",
                hint="Give the pipeline a stream of its own.",
            )
        return place

    async def _connect(self) -> tuple[int, str | None]:
        self._client = await nats.connect(
            self._url,
            allow_reconnect=False,
            connect_timeout=max(1, int(self._seconds)),
            error_cb=_ignore,
            **self._login,
        )
        self._stream = self._client.jetstream(timeout=self._seconds)
        if self._named is None:
            self._named = await self._stream.find_stream_name_by_subject(self._subject)
        info: StreamInfo = await self._stream.stream_info(self._named)
        number = info.state.last_seq
        if not info.state.messages:
            return number, None
        headers = (await self._stream.get_msg(self._named, number)).headers or {}
        return number, headers.get(_PLACE, headers.get("Nats-Msg-Id", "")) or None

    def send(self, messages: Sequence[Message]) -> None:
        """Publish messages without waiting between them; the server keeps their order."""
        answers = self._run(self._publish(messages))
        for number, answer in enumerate(answers):
            if isinstance(answer, MaxPayloadError):
                raise refusal(number, f"NATS refuses a message of this size: {messages[number].id}")
            if isinstance(answer, BaseException):
                raise self._error_for(answer)
            self._number = answer.seq
            if not messages[number].replayed:
                self._place = messages[number].id

    async def _publish(self, messages: Sequence[Message]) -> list[Any]:
        stream = self._stream
        if stream is None:
            raise SinkUnavailableError("NATS is not connected")
        sent = []
        for before, message in enumerate(messages, self._number):
            headers = {"Nats-Msg-Id": message.id, "Nats-Expected-Last-Sequence": str(before)}
            if message.replayed:  # the next relay finds there how far this one got
                headers[_PLACE] = self._place or ""
            body = encode(message, self._envelope).encode()
            sent.append(
                stream.publish(
                    self._subject, body, timeout=self._seconds, stream=self._named, headers=headers
                )
            )
        return list(await asyncio.gather(*sent, return_exceptions=True))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise SinkUnavailableError("NATS is not connected")
        try:
            return self._loop.run(work, 3 * self._seconds + 1)
        except (Error, OSError, TimeoutError) as error:
            raise self._error_for(error) from None  # its text may quote the URL

    def _error_for(self, error: BaseException) -> TrickleError:
        kind = type(error).__name__
        match error:
            case MessageRefusedError() | SinkUnavailableError():
                return error
            case ServiceUnavailableError():
                return SinkUnavailableError("JetStream does not answer now")
            case NotFoundError():
                return SinkSetupError(
                    f"no stream of JetStream keeps the subject {self._subject}",
                    hint="Create the stream, with this subject.",
                )
            case APIError():
                return SinkSetupError(f"JetStream refuses messages: {str(error.description)[:80]}")
            case Error() if "uthorization" in str(error):
                return SinkSetupError("NATS refuses the credentials")
            case _:
                return SinkUnavailableError(f"NATS does not answer now: {kind}")

    def close(self) -> None:
        """Close the connection."""
        if self._loop is not None:
            if self._client is not None:
                try:
                    self._loop.run(self._client.close(), self._seconds + 1)
                except (Error, OSError, TimeoutError):
                    self._client = None
            self._loop.close()
            self._loop = None


async def _ignore(_: Exception) -> None:
    """Let errors of the connection be told by what was asked of it."""
