"""The forms in which messages leave: plain JSON, Debezium's, and CloudEvents; and the way back.

Rows are spliced in as the texts that PostgreSQL wrote, so that they keep every digit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from pgtrickle.errors import EnvelopeError
from pgtrickle.model.version import VERSION
from pgtrickle.relay.connect_schema import write_row, write_schema
from pgtrickle.relay.messages import Message, Op, Place, Stream, read_id

FORMAT_VERSION: Final = 1  # of the plain form; a reader refuses later ones
_LATE: Final = ', "replayed": true'
_CLOUD_TYPE: Final = "pgtrickle.row."
_DEBEZIUM_OPS: Final = {
    Op.RESET: "t",
    Op.READ: "r",
    Op.INSERT: "c",
    Op.UPDATE: "u",
    Op.DELETE: "d",
}


class Envelope(Enum):
    """A form of messages."""

    PLAIN = "plain"
    DEBEZIUM = "debezium"
    DEBEZIUM_SCHEMA = "debezium_schema"  # with the schema of the rows in each message
    CLOUDEVENTS = "cloudevents"


CONTENT_TYPES: Final = {
    Envelope.PLAIN: "application/json",
    Envelope.DEBEZIUM: "application/json",
    Envelope.DEBEZIUM_SCHEMA: "application/json",
    Envelope.CLOUDEVENTS: "application/cloudevents+json",
}


@dataclass(frozen=True, slots=True)
class Received:
    """A message as its receiver sees it; rows are JSON values, with exact numbers."""

    pgt_id: int
    place: Place
    op: Op
    key: dict[str, Any] | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    schema_version: int
    replayed: bool = False  # it was a dead letter, and comes later than its place

    @property
    def id(self) -> str:
        """The stable id."""
        return self.place.written(self.pgt_id)


def encode(message: Message, envelope: Envelope) -> str:
    """Write a message down: JSON, on one line."""
    return _WRITERS[envelope](message)


def decode(text: str | bytes, envelope: Envelope) -> Received:
    """Read a message back; raise ST825 for one of another form or a later version."""
    try:
        document = json.loads(text, parse_float=Decimal)
        return _READERS[envelope](document)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvelopeError(
            f"a message is not of the form {envelope.value}: {type(error).__name__}",
            hint="Name the envelope that its pipeline has.",
        ) from error


def _object(parts: dict[str, str] | None = None, /, **more: str) -> str:
    every = (parts or {}) | more
    return "{" + ", ".join(f'"{name}": {value}' for name, value in every.items()) + "}"


def _replayed(message: Message) -> dict[str, str]:
    return {"replayed": "true"} if message.replayed else {}


def _check_version(version: object) -> None:
    """Raise ST825 for a later version of the form than this reader knows."""
    if version != FORMAT_VERSION:
        raise EnvelopeError(
            f"the message has version {str(version)[:20]} of its form, this reader knows"
            f" {FORMAT_VERSION}",
            hint="Read it with the version of pgtrickle that wrote it, or a later one.",
        )


def _text(value: str | None) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=64)
def _name(stream: Stream) -> str:
    return _text(str(stream))


@lru_cache(maxsize=64)
def _moment(moment: datetime | None) -> str:
    return "null" if moment is None else _text(moment.astimezone(UTC).isoformat())


def _write_plain(message: Message) -> str:
    # One text, not _object: of all forms this one is to be quick, and the id needs no escapes.
    return (
        f'{{"version": {FORMAT_VERSION}, "id": "{message.id}", "op": "{message.op.value}",'
        f' "stream_table": {_name(message.stream)}, "key": {message.key or "null"},'
        f' "before": {message.before or "null"}, "after": {message.after or "null"},'
        f' "data_timestamp": {_moment(message.data_timestamp)},'
        f' "schema_version": {message.schema.version}'
        f"{_LATE if message.replayed else ''}}}"
    )


def _read_plain(document: dict[str, Any]) -> Received:
    _check_version(document["version"])
    return _received(document["id"], Op(document["op"]), document, document)


def _received(id_: str, op: Op, rows: dict[str, Any], facts: dict[str, Any]) -> Received:
    pgt_id, place = read_id(id_)
    return Received(
        pgt_id,
        place,
        op,
        facts["key"],
        rows["before"],
        rows["after"],
        int(facts["schema_version"]),
        facts.get("replayed") is True,
    )


_SOURCE_TYPES: Final = (
    ("version", "string"),
    ("connector", "string"),
    ("name", "string"),
    ("ts_ms", "int64"),
    ("snapshot", "string"),
    ("db", "string"),
    ("sequence", "string"),
    ("schema", "string"),
    ("table", "string"),
    ("key", "string"),
    ("schema_version", "int32"),
    ("format_version", "int32"),
    ("replayed", "boolean"),
)


def _write_debezium(message: Message) -> str:
    before, after = message.before or "null", message.after or "null"
    payload = _payload(message, before, after, message.key or "null")
    return _object(schema="null", payload=payload)


def _write_debezium_schema(message: Message) -> str:
    schema = message.schema
    before, after = write_row(message.before, schema), write_row(message.after, schema)
    payload = _payload(message, before, after, _text(message.key))
    described = write_schema(schema, str(message.stream), _SOURCE_TYPES)
    return _object(schema=described, payload=payload)


def _payload(message: Message, before: str, after: str, key: str) -> str:
    stream, at = message.stream, message.data_timestamp
    millis = "null" if at is None else str(int(at.timestamp() * 1000))
    source = _object(
        version=_text(VERSION),
        connector=_text("pgtrickle"),
        name=_text("pgtrickle"),
        ts_ms=millis,
        snapshot=_text("true" if message.place.in_contents else "false"),
        db=_text(stream.database),
        sequence=_text(message.id),
        schema=_text(stream.schema),
        table=_text(stream.name),
        key=key,
        schema_version=str(message.schema.version),
        format_version=str(FORMAT_VERSION),
        **_replayed(message),
    )
    return _object(
        before=before,
        after=after,
        source=source,
        op=_text(_DEBEZIUM_OPS[message.op]),
        ts_ms=millis,
        transaction="null",
    )


def _read_debezium(document: dict[str, Any]) -> Received:
    payload = document["payload"]
    source = payload["source"]
    if source["connector"] != "pgtrickle":
        raise EnvelopeError("the message is of another connector")
    _check_version(source["format_version"])
    if isinstance(source["key"], str):  # as messages with a schema have it
        source["key"] = json.loads(source["key"], parse_float=Decimal)
    op = next(op for op, word in _DEBEZIUM_OPS.items() if word == payload["op"])
    return _received(source["sequence"], op, payload, source)


def _write_cloudevent(message: Message) -> str:
    stream = message.stream
    parts = {
        "specversion": _text("1.0"),
        "id": _text(message.id),
        "source": _text(f"/pgtrickle/{quote(stream.database, '')}/{quote(str(stream), '')}"),
        "type": _text(f"{_CLOUD_TYPE}{message.op.value}"),
        "datacontenttype": _text("application/json"),
        "dataversion": _text(str(FORMAT_VERSION)),
        "data": _object(
            key=message.key or "null",
            before=message.before or "null",
            after=message.after or "null",
            schema_version=str(message.schema.version),
            **_replayed(message),
        ),
    }
    if message.data_timestamp is not None:
        parts["time"] = _moment(message.data_timestamp)
    if message.key is not None:
        parts["subject"] = _text(message.key)
    return _object(**parts)


def _read_cloudevent(document: dict[str, Any]) -> Received:
    if document["specversion"] != "1.0":
        raise EnvelopeError(f"the event has version {str(document['specversion'])[:20]}, not 1.0")
    _check_version(int(document["dataversion"]))
    op = Op(document["type"].removeprefix(_CLOUD_TYPE))
    return _received(document["id"], op, document["data"], document["data"])


_WRITERS: Final[dict[Envelope, Callable[[Message], str]]] = {
    Envelope.PLAIN: _write_plain,
    Envelope.DEBEZIUM: _write_debezium,
    Envelope.DEBEZIUM_SCHEMA: _write_debezium_schema,
    Envelope.CLOUDEVENTS: _write_cloudevent,
}
_READERS: Final[dict[Envelope, Callable[[dict[str, Any]], Received]]] = {
    Envelope.PLAIN: _read_plain,
    Envelope.DEBEZIUM: _read_debezium,
    Envelope.DEBEZIUM_SCHEMA: _read_debezium,
    Envelope.CLOUDEVENTS: _read_cloudevent,
}
