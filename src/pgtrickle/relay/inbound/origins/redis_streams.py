"""Redis Streams: entries after the id that the inbox's database keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004 - redis's own
    RedisError,
    TimeoutError,  # noqa: A004 - redis's own
)
from redis.retry import Retry

from pgtrickle.errors import (
    OriginSetupError,
    OriginUnavailableError,
    PlaceLostError,
    TrickleError,
)
from pgtrickle.relay.inbound.definitions import InboundDefinition
from pgtrickle.relay.inbound.origins.origin import Arrived, Places
from pgtrickle.relay.sinks.sink import Options

_BEGIN: Final = "0-0"


class RedisOrigin:
    """A stream of Redis."""

    def __init__(self, definition: InboundDefinition, options: dict[str, Any]) -> None:
        taken = Options(definition, options)
        url, self._stream = taken.text("url"), taken.text("stream")
        seconds = taken.number("timeout_seconds", 10, 0.1, 300)
        taken.end()
        self._earliest = definition.start == "earliest"
        self._place = _BEGIN
        try:
            self._client = Redis.from_url(
                url,
                socket_timeout=seconds + 60,  # it waits for messages, too
                socket_connect_timeout=seconds,
                retry=Retry(NoBackoff(), 0),  # the relay does that
            )
        except (ValueError, TypeError):
            raise taken.wrong("url", "a URL with redis, rediss or unix") from None

    def open(self, places: Places) -> Places:
        """Look at the stream: whether it still has what comes after the place."""
        try:
            there = self._client.exists(self._stream)
            told: Any = self._client.xinfo_stream(self._stream) if there else {}
        except RedisError as error:
            raise self._error_for(error) from None
        known = places.get(self._stream)
        if known is None:
            deleted = _text(told.get("max-deleted-entry-id", _BEGIN))  # what is gone is not missed
            self._place = (
                deleted if self._earliest else _text(told.get("last-generated-id", _BEGIN))
            )
            return {self._stream: self._place}
        self._place = known
        self._check(told)
        return {}

    def _check(self, told: Mapping[str, Any]) -> None:
        """Raise ST846 unless the stream has kept what comes after the place."""
        last = _text(told.get("last-generated-id", _BEGIN))
        deleted = _text(told.get("max-deleted-entry-id", _BEGIN))
        place = _number(self._place)
        if _number(last) < place or _number(deleted) > place:
            raise PlaceLostError(
                f"the stream {self._stream} of Redis has not kept all entries after {self._place}",
                hint="Let it begin again: pgtrickle inbound resume PIPELINE --again.",
            )

    def fetch(self, most: int, seconds: float) -> Sequence[Arrived]:
        """Return the next entries, which are read at one moment with what the stream has kept."""
        try:
            with self._client.pipeline(transaction=True) as together:
                together.xinfo_stream(self._stream)
                together.xread({self._stream: self._place}, most)
                told, found = together.execute(raise_on_error=False)
            if isinstance(found, RedisError):
                raise found
            self._check({} if isinstance(told, RedisError) else told)
            if not found:
                self._client.xread({self._stream: self._place}, 1, max(1, int(seconds * 1000)))
                return []
        except RedisError as error:
            raise self._error_for(error) from None
        listed = found.values() if isinstance(found, Mapping) else [one for _, one in found or ()]
        arrived = [self._arrived(_text(id_), fields) for id_, fields in _flat(listed)]
        if arrived:
            self._place = arrived[-1].place
        return arrived

    def _arrived(self, place: str, fields: dict[bytes, bytes]) -> Arrived:
        """Return an entry; one without a field ``value`` is an object of its fields."""
        value = fields.get(b"value")
        if value is None:
            told = {_text(name): _text(one) for name, one in fields.items()}
            value = json.dumps(told, ensure_ascii=False).encode(errors="surrogateescape")
        id_ = _text(fields.get(b"id", b"")) or f"{self._stream}:{place}"
        headers = {
            _text(name): _text(one)
            for name, one in fields.items()
            if name not in {b"id", b"key", b"value"}
        }
        return Arrived(self._stream, place, id_, fields.get(b"key") or None, value, headers)

    def settle(self, arrived: Sequence[Arrived]) -> None:
        """Do nothing: the place is in the database of the inbox."""

    def lag(self) -> int | None:
        """Redis counts no entries after an id."""
        return None

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _error_for(self, error: RedisError) -> TrickleError:
        kind = type(error).__name__
        match error:
            case AuthenticationError() | AuthorizationError():
                return OriginSetupError(
                    f"Redis refuses the credentials for the stream {self._stream}: {kind}"
                )
            case ConnectionError() | TimeoutError() | BusyLoadingError():
                return OriginUnavailableError(f"Redis does not answer now: {kind}")
            case _:
                return OriginSetupError(
                    f"Redis refuses the stream {self._stream}: {str(error)[:80]}",
                    hint="Look at what the key holds, and at the rights of the user.",
                )


def _text(value: bytes | str) -> str:
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value


def _number(place: str) -> tuple[int, ...]:
    return tuple(int(one) for one in place.split("-"))


def _flat(listed: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """Return the entries of one stream, as either protocol of Redis has them."""
    flat: list[tuple[bytes, dict[bytes, bytes]]] = []
    for one in listed:
        nested = one and one[0] and isinstance(one[0][0], list | tuple)
        entries = one[0] if nested else one
        flat += [(id_, fields or {}) for id_, fields in entries]
    return flat
