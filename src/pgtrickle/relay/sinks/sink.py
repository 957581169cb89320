"""What a kind of receiver does for a pipeline, and what it promises."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Protocol

from pgtrickle.errors import MessageRefusedError, PipelineError, SinkUnavailableError
from pgtrickle.relay.definitions import Definition
from pgtrickle.relay.messages import Message, Place, Schema, Stream


class Guarantee(Enum):
    """How often a message arrives, whatever dies meanwhile."""

    EXACTLY_ONCE = "exactly once"
    WINDOW = "exactly once within the receiver's window of ids"
    AT_LEAST_ONCE = "at least once"


def refusal(delivered: int, message: str, *, hint: str = "") -> MessageRefusedError:
    """Return the error for a message: those before it were delivered, none after it was."""
    error = MessageRefusedError(message, hint=hint)
    error.delivered = delivered
    return error


def unavailable(delivered: int, message: str, *, hint: str = "") -> SinkUnavailableError:
    """Return the error for a receiver that took so many messages, and not the one behind them."""
    error = SinkUnavailableError(message, hint=hint)
    error.delivered = delivered
    return error


class Sink(Protocol):
    """A receiver.  Options are checked when it is made, and nothing is reached before ``open``.

    Methods raise ST822 if it cannot be reached now, and ST823 if it refuses everything.
    """

    guarantee: ClassVar[Guarantee]

    def __init__(self, definition: Definition, options: dict[str, Any]) -> None: ...

    def open(self, stream: Stream, schema: Schema) -> Place | None:
        """Reach it; return the place of the last message that it has, if it keeps that itself."""
        ...

    def send(self, messages: Sequence[Message]) -> None:
        """Deliver messages in their order, and return when it has them; or raise RefusedError."""
        ...

    def close(self) -> None:
        """Let it go."""
        ...


class Named(Protocol):
    """A definition of a pipeline."""

    @property
    def name(self) -> str:
        """Its name."""
        ...


class Options:
    """The options of a sink, taken one by one; what nobody took is unknown."""

    def __init__(self, definition: Named, options: dict[str, Any]) -> None:
        self._name, self._left = definition.name, dict(options)

    def text(self, key: str, default: str | None = None) -> str:
        """Take a text; one without default must be given."""
        value = self._left.pop(key, default)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a text")
        return value

    def optional(self, key: str) -> str | None:
        """Take a text that need not be given."""
        return self.text(key) if self._left.get(key) is not None else self._left.pop(key, None)

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """Take a number."""
        value = self._left.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number")
        if not least <= value <= most:
            raise self.wrong(key, f"a number from {least:g} to {most:g}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        """Take a yes or no."""
        value = self._left.pop(key, default)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def texts(self, key: str) -> dict[str, str]:
        """Take texts by name."""
        value = self._left.pop(key, None) or {}
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            raise self.wrong(key, "texts by name")
        return value

    def values(self, key: str) -> dict[str, Any]:
        """Take values by name, which are passed on as they are."""
        value = self._left.pop(key, None) or {}
        if not isinstance(value, dict):
            raise self.wrong(key, "values by name")
        return value

    def end(self) -> None:
        """Refuse what is left."""
        if self._left:
            raise PipelineError(
                f"the sink of the pipeline {self._name} has no option {min(self._left)[:80]!r}",
                hint="See the options of its kind in docs/relay.md.",
            )

    def wrong(self, key: str, wanted: str) -> PipelineError:
        """Return the error for an option, without its value, which may be a secret."""
        return PipelineError(
            f"the option {key} of the pipeline {self._name} must be {wanted}",
            hint="See the options of its kind in docs/relay.md.",
        )
