"""What a kind of broker does for an inbound pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, Protocol, cast

from pgtrickle.extras import require
from pgtrickle.relay.inbound.definitions import ORIGINS, InboundDefinition
from pgtrickle.relay.secrets import resolve

Places = Mapping[str, str]  # the last message that was received, by part of the origin

_LIBRARIES: Final = {"kafka": "confluent_kafka", "nats": "nats", "redis": "redis", "sqs": "boto3"}


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as it came."""

    part: str
    place: str  # in its part; empty if the origin keeps no place
    id: str  # the one that it brings, or else its place
    key: bytes | None
    value: bytes | None
    headers: dict[str, str] = field(default_factory=dict)
    receipt: Any = None  # what the broker wants back when it was received


class Origin(Protocol):
    """A broker.  Options are checked when it is made, and nothing is reached before ``open``.

    Methods raise ST843 if it cannot be reached now, ST844 if it refuses everything, and ST846 if it
    no longer has the messages after a place.
    """

    def __init__(self, definition: InboundDefinition, options: dict[str, Any]) -> None: ...

    def open(self, places: Places) -> Places:
        """Reach it; return the places after which it begins, where they were not known."""
        ...

    def fetch(self, most: int, seconds: float) -> Sequence[Arrived]:
        """Return the next messages, in the order of each part; wait for them for a while."""
        ...

    def settle(self, arrived: Sequence[Arrived]) -> None:
        """Hear that messages were received and committed."""
        ...

    def lag(self) -> int | None:
        """Return how many messages there are to be received, if that is known."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


def make_origin(definition: InboundDefinition, options: dict[str, Any] | None = None) -> Origin:
    """Make the broker of a pipeline, with its secrets; nothing is reached yet.

    Raise ST508 if the library of its kind is not installed.
    """
    module, name = ORIGINS[definition.origin].split(":")
    require(_LIBRARIES[definition.origin])
    given = (
        resolve(definition.options, trusted=definition.from_file) if options is None else options
    )
    found = getattr(import_module(f"pgtrickle.relay.inbound.origins.{module}"), name)
    return cast("type[Origin]", found)(definition, given)
