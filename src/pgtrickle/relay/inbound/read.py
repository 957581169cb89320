"""Messages as they came, to rows of an inbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from pgtrickle.errors import MessageUnreadableError, PipelineError
from pgtrickle.relay.inbound.origins.origin import Arrived

_LONGEST_ID: Final = 2000  # bytes: an index holds 2,704
_FIELDS: Final = ("id_field", "type_field", "aggregate_field", "sequence_field", "priority_field")
_SMALL, _LARGE = 2**31, 2**63


class Row(NamedTuple):
    """A row of an inbox; the payload is JSON text."""

    event_id: str
    event_type: str | None
    source: str
    aggregate_id: str | None
    sequence_num: int | None
    priority: int
    payload: str | None


@dataclass(frozen=True, slots=True)
class Reader:
    """How the messages of a pipeline are read.

    A field is the name of a member of the message, which is then a JSON object.  Without one, the
    id is that of the message's header or else its place, and the aggregate is its key.
    """

    source: str
    as_text: bool
    fields: Mapping[str, str]

    @classmethod
    def take(cls, name: str, options: dict[str, Any]) -> Reader:
        """Take what concerns messages out of the options of a pipeline."""
        form = options.pop("format", "json")
        if form not in {"json", "text"}:
            raise _wrong(name, "format", "json or text")
        fields: dict[str, str] = {}
        for one in _FIELDS:
            found = options.pop(one, None)
            if found is not None and (not isinstance(found, str) or not found):
                raise _wrong(name, one, "the name of a field")
            if found is not None:
                fields[one] = found
        if fields and form == "text":
            raise _wrong(name, min(fields), "left out: the messages are text")
        return cls(name, form == "text", fields)

    def read(self, arrived: Arrived) -> Row:
        """Return the row of a message, or raise ST845."""
        text = _decode(arrived.value, arrived)
        if self.as_text:
            payload = None if text is None else json.dumps(text, ensure_ascii=False)
            return self._row(arrived, {}, payload)
        try:
            document = None if text is None else json.loads(text, parse_float=Decimal)
        except (ValueError, RecursionError):
            raise unreadable(arrived, "its value is no JSON") from None
        if self.fields and not isinstance(document, dict):
            raise unreadable(arrived, "its value is no object with fields")
        return self._row(arrived, document or {}, text)

    def _row(self, arrived: Arrived, document: Any, payload: str | None) -> Row:
        id_ = self._text(arrived, document, "id_field")
        if id_ is None and "id_field" in self.fields:
            raise unreadable(
                arrived, f"it has no {self.fields['id_field'][:80]!r}, which is its id"
            )
        event_id = arrived.id if id_ is None else id_
        aggregate = self._text(arrived, document, "aggregate_field")
        if "aggregate_field" not in self.fields:
            aggregate = _decode(arrived.key, arrived)
        row = Row(
            event_id,
            self._text(arrived, document, "type_field") or arrived.headers.get("type"),
            self.source,
            aggregate,
            self._number(arrived, document, "sequence_field", _LARGE),
            self._number(arrived, document, "priority_field", _SMALL) or 0,
            payload,
        )
        texts = (row.event_id, row.event_type, row.aggregate_id)
        if any(_is_no_text(one) for one in texts if one is not None):
            raise unreadable(arrived, "its id, type or key has a character that is no text")
        if len(event_id.encode()) > _LONGEST_ID:
            raise unreadable(arrived, f"its id has more than {_LONGEST_ID:,} bytes")
        return row

    def _text(self, arrived: Arrived, document: Any, field: str) -> str | None:
        value = document.get(self.fields[field]) if field in self.fields else None
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise unreadable(arrived, f"{self.fields[field][:80]!r} is no text")
        return str(value)

    def _number(self, arrived: Arrived, document: Any, field: str, limit: int) -> int | None:
        value = document.get(self.fields[field]) if field in self.fields else None
        if value is None:
            return None
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not -limit <= value < limit:
            raise unreadable(arrived, f"{self.fields[field][:80]!r} is no whole number in range")
        return int(value)


def unreadable(arrived: Arrived, why: str) -> MessageUnreadableError:
    """Return the error for a message that cannot be read."""
    return MessageUnreadableError(
        f"the message {printable(arrived.id[:200])} cannot be read: {why}"
    )


def printable(text: str) -> str:
    r"""Return a text as it is, or with escapes if PostgreSQL cannot hold it.

    >>> printable("größe"), printable("a\0b")
    ('größe', 'a\\x00b')
    """
    return text.encode("unicode_escape").decode() if _is_no_text(text) else text


def _decode(value: bytes | None, arrived: Arrived) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise unreadable(arrived, "it is no UTF-8") from None


def _is_no_text(text: str) -> bool:
    return "\0" in text or any("\ud800" <= one <= "\udfff" for one in text)


def _wrong(name: str, key: str, wanted: str) -> PipelineError:
    return PipelineError(
        f"the option {key} of the pipeline {name} must be {wanted}", hint="See docs/inbound.md."
    )
