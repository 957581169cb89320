"""Redis Streams: each message under an id of its own, which Redis takes once.

An id is ``<number>-<row>``; the number is twice that of the entry, and one more for the rows of the
contents after it.  Redis refuses an id that is not greater than all before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - redis's own
    ExecAbortError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004 - redis's own
)
from redis.retry import Retry

from pgtrickle.errors import EnvelopeError, SinkSetupError, SinkUnavailableError, TrickleError
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.envelopes import encode
from pgtrickle.relay.messages import Message, Place, Schema, Stream, read_id
from pgtrickle.relay.sinks.sink import Guarantee, Options

_ID: Final = re.compile(rb"([0-9]+)-([0-9]+)")


def write_stream_id(place: Place) -> str:
    """Return the id of a message in a stream of Redis.

    >>> write_stream_id(Place(7, False, 3)), write_stream_id(Place(7, True, 1))
    ('14-3', '15-1')
    """
    return f"{2 * place.outbox_id + place.in_contents}-{place.row_number}"


def read_stream_id(text: bytes) -> Place | None:
    """Return the place that an id tells; None for that of an empty stream.

    >>> read_stream_id(b"15-1")
    Place(outbox_id=7, in_contents=True, row_number=1)
    """
    found = _ID.fullmatch(text)
    if found is None or text == b"0-0":
        return None
    number = int(found[1])
    return Place(number // 2, bool(number % 2), int(found[2]))


class RedisSink:
    """A stream of Redis."""

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        url, self._stream = taken.text("url"), taken.text("stream")
        most = taken.number("maxlen", 0, 0, 2**53)
        seconds = taken.number("timeout_seconds", 10, 0.1, 300)
        taken.end()
        self._most = int(most) or None
        self._envelope = definition.envelope
        self._last: Place | None = None
        try:
            self._client = Redis.from_url(
                url,
                socket_timeout=seconds,
                socket_connect_timeout=seconds,
                retry=Retry(NoBackoff(), 0),  # the relay does that
            )
        except (ValueError, TypeError):
            raise taken.wrong("url", "a URL with redis, rediss or unix") from None

    def open(self, stream: Stream, schema: Schema) -> Place | None:  # noqa: ARG002 - a sink's
        """Look at the last entry of the stream, which must be a message of this stream table."""
        try:
            entries: Any = self._client.xrevrange(self._stream, count=1)
            self._last = None
            if self._client.exists(self._stream):
                told = self._client.xinfo_stream(self._stream)["last-generated-id"]
                self._last = read_stream_id(told)
        except RedisError as error:
            raise self._error_for(error) from None  # its text may quote the URL
        for _, fields in entries:
            text = fields.get(b"id", b"").decode(errors="replace")
            pgt_id, _place = read_id(text)
            if pgt_id != stream.pgt_id:
                raise EnvelopeError(
                    f"the stream {self._stream} of Redis holds messages of another stream table",
                    hint="Give the pipeline a stream of its own.",
                )
        return self._last

    def send(self, messages: Sequence[Message]) -> None:
        """Append messages in one transaction of Redis; what it has is left out."""
        if any(one.replayed for one in messages):
            self._send_late(messages)
            return
        new = [one for one in messages if self._last is None or one.place > self._last]
        if not new:
            return
        try:
            with self._client.pipeline(transaction=True) as together:
                for one in new:
                    together.xadd(
                        self._stream,
                        {"id": one.id, "key": one.key or "", "value": encode(one, self._envelope)},
                        id=write_stream_id(one.place),
                        maxlen=self._most,
                    )
                together.execute()
        except RedisError as error:
            raise self._error_for(error) from None
        self._last = new[-1].place

    def _send_late(self, letters: Sequence[Message]) -> None:
        """Append dead letters to a stream beside the other, which takes no older id."""
        try:
            for one in letters:
                value = encode(one, self._envelope)
                fields = {"id": one.id, "key": one.key or "", "value": value}
                self._client.xadd(f"{self._stream}:replayed", fields, maxlen=self._most)  # type: ignore[arg-type]
        except RedisError as error:
            raise self._error_for(error) from None

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _error_for(self, error: RedisError) -> TrickleError:
        kind = type(error).__name__
        match error:
            case AuthenticationError() | AuthorizationError():
                return SinkSetupError(
                    f"Redis refuses the credentials for the stream {self._stream}: {kind}"
                )
            case (
                ConnectionError()
                | TimeoutError()
                | BusyLoadingError()
                | OutOfMemoryError()
                | ExecAbortError()
            ):
                return SinkUnavailableError(f"Redis does not answer now: {kind}")
            case ResponseError() if str(error).startswith(("LOADING", "READONLY", "MASTERDOWN")):
                return SinkUnavailableError(f"Redis cannot be written now: {kind}")
            case _:
                return SinkSetupError(
                    f"Redis refuses the stream {self._stream}: {str(error)[:80]}",
                    hint="Look at what the key holds, and at the rights of the user.",
                )
