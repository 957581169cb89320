"""RabbitMQ: persistent messages, each of which the server has confirmed.

The server may refuse a message and take the ones behind it.  So no two messages of a key are on
their way at once, and each message that has no key is on its way alone.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import urlsplit

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aio_pika.exceptions import (
    AMQPError,
    AuthenticationError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    ProbableAuthenticationError,
    PublishError,
)
from aiormq.exceptions import ChannelAccessRefused, ChannelInvalidStateError, ConnectionNotAllowed

from pgtrickle.errors import SinkSetupError, SinkUnavailableError, TrickleError
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import CONTENT_TYPES, encode
from pgtrickle.relay.messages import Message, Place, Schema, Stream
from pgtrickle.relay.sinks.loop_thread import LoopThread
from pgtrickle.relay.sinks.sink import Guarantee, Options, refusal, unavailable

T = TypeVar("T")

_FAILURES: Final = (AMQPError, ChannelInvalidStateError, OSError, TimeoutError, RuntimeError)


class RabbitSink:
    """An exchange of RabbitMQ, or one of its queues."""

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        self._url, self._route = taken.text("url"), taken.text("routing_key")
        self._exchange_name = taken.optional("exchange")
        self._seconds = taken.number("timeout_seconds", 10, 0.1, 300)
        authority, certificate = taken.optional("ca_file"), taken.optional("cert_file")
        key = taken.optional("key_file")
        taken.end()
        if urlsplit(self._url).scheme not in {"amqp", "amqps"}:
            raise taken.wrong("url", "a URL with amqp or amqps")
        try:
            self._tls = ssl.create_default_context(cafile=authority)
            if certificate:
                self._tls.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError):
            raise taken.wrong("ca_file", "a readable certificate, as cert_file") from None
        self._envelope = definition.envelope
        self._loop: LoopThread | None = None
        self._connection: AbstractConnection | None = None
        self._exchange: AbstractExchange | None = None

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Connect, and look whether the exchange or the queue is there."""
        self._loop = LoopThread("relay to RabbitMQ")
        self._exchange = self._run(self._connect())
        return None

    async def _connect(self) -> AbstractExchange:
        self._connection = await aio_pika.connect(
            self._url, timeout=self._seconds, ssl_context=self._tls
        )
        # What no queue takes comes back, and is not counted as delivered.
        channel: AbstractChannel = await self._connection.channel(
            publisher_confirms=True, on_return_raises=True
        )
        if self._exchange_name is not None:
            return await channel.get_exchange(self._exchange_name, ensure=True)
        await channel.get_queue(self._route, ensure=True)
        return channel.default_exchange

    def send(self, messages: Sequence[Message]) -> None:
        """Publish messages, and wait until the server has confirmed each."""
        done = 0
        for flight in _split(messages):
            answers = self._run(self._publish(flight))
            for number, answer in enumerate(answers):
                if isinstance(answer, ChannelPreconditionFailed) and len(flight) == 1:
                    raise refusal(done, f"RabbitMQ refuses the message {flight[0].id}")
                if isinstance(answer, ChannelPreconditionFailed):
                    self._send_apart(flight[number:], done + number)
                    break
                if isinstance(answer, DeliveryError) and not isinstance(answer, PublishError):
                    where = self._exchange_name or self._route
                    told = f"RabbitMQ cannot take messages now for {where}"
                    raise unavailable(done + number, told, hint="Let consumers take some.")
                if isinstance(answer, BaseException):
                    raise self._error_for(answer)
            done += len(flight)

    def _send_apart(self, messages: Sequence[Message], done: int) -> None:
        """Find which message the server refuses: with it, it closed the channel."""
        for number, message in enumerate(messages):
            self.close()
            self._loop = LoopThread("relay to RabbitMQ")
            self._exchange = self._run(self._connect())
            [answer] = self._run(self._publish([message]))
            if isinstance(answer, ChannelPreconditionFailed):
                raise refusal(done + number, f"RabbitMQ refuses the message {message.id}")
            if isinstance(answer, BaseException):
                raise self._error_for(answer)

    async def _publish(self, messages: Sequence[Message]) -> list[Any]:
        exchange = self._exchange
        if exchange is None:
            raise SinkUnavailableError("RabbitMQ is not connected")
        sent = [
            exchange.publish(self._written(one), self._route, mandatory=True, timeout=self._seconds)
            for one in messages
        ]
        return list(await asyncio.gather(*sent, return_exceptions=True))

    def _written(self, message: Message) -> aio_pika.Message:
        return aio_pika.Message(
            encode(message, self._envelope).encode(),
            message_id=message.id,
            type=message.op.value,
            content_type=CONTENT_TYPES[self._envelope],
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            headers={} if message.key is None else {"key": message.key},
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise SinkUnavailableError("RabbitMQ is not connected")
        try:
            return self._loop.run(work, 2 * self._seconds)
        except _FAILURES as error:
            raise self._error_for(error) from None  # its text may quote the URL

    def _error_for(self, error: BaseException) -> TrickleError:
        kind, where = type(error).__name__, self._exchange_name or self._route
        match error:
            case TrickleError():
                return error
            case (
                AuthenticationError()
                | ProbableAuthenticationError()
                | ConnectionNotAllowed()
                | ChannelAccessRefused()
            ):
                return SinkSetupError(
                    f"RabbitMQ refuses the credentials for {where}",
                    hint="Check the user, its virtual host, and its right to write there.",
                )
            case ChannelNotFoundEntity():
                return SinkSetupError(
                    f"RabbitMQ has no exchange or queue {where}", hint="Declare it there."
                )
            case PublishError():
                return SinkSetupError(
                    f"no queue takes what is published to {where} as {self._route}",
                    hint="Bind a queue to the exchange with this routing key.",
                )
            case _:
                return SinkUnavailableError(f"RabbitMQ does not answer now: {kind}")

    def close(self) -> None:
        """Close the connection."""
        if self._loop is None:
            return
        loop, self._loop, self._exchange = self._loop, None, None
        if self._connection is not None:
            try:
                loop.run(self._connection.close(), self._seconds)
            except _FAILURES:  # it is gone already
                self._connection = None
        loop.close()


def _split(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield messages that may be on their way at once."""
    flight: list[Message] = []
    keys: set[str | None] = set()
    for one in messages:
        if flight and (one.key is None or one.key in keys or None in keys):
            yield flight
            flight, keys = [], set()
        flight.append(one)
        keys.add(one.key)
    if flight:
        yield flight
