"""The definitions of pipelines: what goes from which stream table to which receiver, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final

import yaml

from pgtrickle.errors import PipelineError
from pgtrickle.relay.envelopes import Envelope

MAX_INFLIGHT: Final = 1000
MAX_FAILURES: Final = 5
POLL_MS: Final = 200


class Start(Enum):
    """Where a new pipeline begins."""

    SNAPSHOT = "snapshot"  # all rows of the stream table, then their changes
    EARLIEST = "earliest"  # the oldest entry that the outbox keeps
    LATEST = "latest"  # the next entry


class OnPoison(Enum):
    """What becomes of a message that the receiver refuses for good."""

    BLOCK = "block"  # the pipeline stops at it
    DEAD_LETTER_KEY = "dead_letter_key"  # it is set aside, with all later ones of its key
    DEAD_LETTER = "dead_letter"  # it alone is set aside


@dataclass(frozen=True, slots=True)
class Definition:
    """A pipeline as it was defined; secrets in its options are still references."""

    name: str
    stream_table: str
    sink: str
    options: Mapping[str, Any] = field(default_factory=dict)
    envelope: Envelope = Envelope.PLAIN
    start: Start = Start.SNAPSHOT
    on_poison: OnPoison = OnPoison.BLOCK
    sink_max_inflight: int = MAX_INFLIGHT
    max_failures: int = MAX_FAILURES
    poll_ms: int = POLL_MS
    from_file: bool = False


_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
_WORDS: Final[dict[str, type[Enum]]] = {
    "envelope": Envelope,
    "start": Start,
    "on_poison": OnPoison,
}
_NUMBERS: Final = {
    "sink_max_inflight": (1, 100_000),
    "max_failures": (1, 1_000),
    "poll_ms": (10, 60_000),
}
_KEYS: Final = tuple(
    one.name for one in fields(Definition) if one.name not in {"name", "from_file"}
)


def read_definition(name: str, given: object, *, from_file: bool) -> Definition:
    """Check one definition; raise ST820 if it cannot be used."""
    if _NAME.fullmatch(str(name)) is None:
        raise PipelineError(
            f"a pipeline cannot be called {str(name)[:80]!r}",
            hint="Take up to 63 letters, digits, and _ . - after the first.",
        )
    if not isinstance(given, Mapping):
        raise PipelineError(f"the pipeline {name} has no options", hint=_hint())
    unknown = sorted(str(one) for one in given if one not in _KEYS)
    if unknown:
        raise PipelineError(
            f"the pipeline {name} has the unknown option {unknown[0]!r}", hint=_hint()
        )
    values: dict[str, Any] = {}
    for key in ("stream_table", "sink"):
        if not isinstance(given.get(key), str):
            raise PipelineError(f"the pipeline {name} does not say its {key}", hint=_hint())
        values[key] = given[key]
    options = given.get("options") or {}
    if not isinstance(options, Mapping) or not all(isinstance(one, str) for one in options):
        raise PipelineError(
            f"the options of the pipeline {name} are no names with values", hint=_hint()
        )
    values["options"] = dict(options)
    for key, kind in _WORDS.items():
        if given.get(key) is not None:
            values[key] = _read_word(name, key, kind, given[key])
    for key, (least, most) in _NUMBERS.items():
        number = given.get(key)
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            raise PipelineError(
                f"{key} of the pipeline {name} cannot be {str(number)[:40]!r}",
                hint=f"Give a number from {least} to {most:,}.",
            )
        values[key] = number
    return Definition(name, from_file=from_file, **values)


def _hint() -> str:
    return f"A pipeline has the options {', '.join(_KEYS)}; see docs/relay.md."


def _read_word(name: str, key: str, kind: type[Enum], given: object) -> Enum:
    try:
        return kind(given)
    except ValueError as error:
        if kind is Envelope and given == "avro":
            raise PipelineError(
                f"the pipeline {name} cannot have the envelope 'avro': no schema registry is known",
                hint="Avro needs one, which no receiver has yet. Choose debezium_schema: JSON with"
                " its schema.",
            ) from error
        raise PipelineError(
            f"{key} of the pipeline {name} cannot be {str(given)[:40]!r}",
            hint=f"Choose one of {', '.join(one.value for one in kind)}.",
        ) from error


def read_file(path: Path) -> list[Definition]:
    """Read the definitions of a file: YAML or JSON with one object ``pipelines``."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PipelineError(
            f"the file {path} cannot be read: {type(error).__name__}",
            hint="It holds YAML or JSON; see docs/relay.md.",
        ) from error
    found = document.get("pipelines") if isinstance(document, dict) else None
    if not isinstance(found, dict) or set(document) != {"pipelines"}:
        raise PipelineError(
            f"the file {path} does not have exactly one object, 'pipelines'",
            hint="See docs/relay.md.",
        )
    return [read_definition(name, given, from_file=True) for name, given in found.items()]
