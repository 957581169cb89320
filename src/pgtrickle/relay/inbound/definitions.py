"""The definitions of inbound pipelines: what goes from where into which inbox, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import yaml

from pgtrickle.errors import PipelineError

ORIGINS: Final = {
    "kafka": "kafka:KafkaOrigin",
    "nats": "nats_streams:NatsOrigin",
    "redis": "redis_streams:RedisOrigin",
    "sqs": "sqs:SqsOrigin",
}
_WORDS: Final = {
    "origin": tuple(ORIGINS),
    "start": ("earliest", "latest"),
    "on_unreadable": ("dead_letter", "block"),
}
_NUMBERS: Final = {
    "max_inflight": (1, 100_000),
    "max_pending": (1, 1_000_000_000),
    "poll_ms": (10, 60_000),
}


@dataclass(frozen=True, slots=True)
class InboundDefinition:
    """A pipeline as it was defined; secrets in its options are still references."""

    name: str
    inbox: str
    origin: str
    options: Mapping[str, Any] = field(default_factory=dict)
    start: str = "earliest"
    on_unreadable: str = "dead_letter"
    max_inflight: int = 1000  # messages that are read and not yet committed
    max_pending: int = 100_000  # messages that wait in the inbox; then nothing more is read
    poll_ms: int = 200
    from_file: bool = False


_KEYS: Final = tuple(
    one.name for one in fields(InboundDefinition) if one.name not in {"name", "from_file"}
)


def read_inbound(name: str, given: object, *, from_file: bool) -> InboundDefinition:
    """Check one definition; raise ST820 if it cannot be used."""
    if not isinstance(given, Mapping):
        raise _wrong(name, "has no options")
    unknown = sorted(str(one) for one in given if one not in _KEYS)
    if unknown:
        raise _wrong(name, f"has the unknown option {unknown[0][:80]!r}")
    values = {key: value for key, value in given.items() if value is not None}
    for key in ("inbox", "origin"):
        if not isinstance(values.get(key), str):
            raise _wrong(name, f"does not say its {key}")
    options = values.get("options", {})
    if not isinstance(options, Mapping) or not all(isinstance(one, str) for one in options):
        raise _wrong(name, "has options that are no names with values")
    for key, words in _WORDS.items():
        if values.get(key, words[0]) not in words:
            raise _wrong(name, f"has the unknown {key} {str(values[key])[:40]!r}", words)
    for key, (least, most) in _NUMBERS.items():
        number = values.get(key, least)
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise _wrong(name, f"has a {key} that is no number from {least} to {most:,}")
    return InboundDefinition(name, from_file=from_file, **{**values, "options": dict(options)})


def _wrong(name: str, what: str, words: tuple[str, ...] = _KEYS) -> PipelineError:
    return PipelineError(
        f"the inbound pipeline {str(name)[:80]} {what}",
        hint=f"Choose among {', '.join(words)}; see docs/inbound.md.",
    )


def read_inbound_file(path: Path) -> list[InboundDefinition]:
    """Read the definitions of a file: YAML or JSON with one object ``inbound``."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PipelineError(
            f"the file {path} cannot be read: {type(error).__name__}",
            hint="It holds YAML or JSON; see docs/inbound.md.",
        ) from error
    found = document.get("inbound") if isinstance(document, dict) else None
    if not isinstance(found, dict) or set(document) != {"inbound"}:
        raise PipelineError(
            f"the file {path} does not have exactly one object, 'inbound'",
            hint="See docs/inbound.md.",
        )
    return [read_inbound(str(name), given, from_file=True) for name, given in found.items()]
