"""Messages of a relay: one change of one row, at its place in the stream of its stream table.

Rows and keys are kept as the JSON texts that PostgreSQL wrote: no number passes through a float.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from pgtrickle.errors import EnvelopeError


class Op(Enum):
    """What a message says of its row."""

    RESET = "reset"  # forget every row: all of them follow
    READ = "read"  # a row of the contents, with which a stream begins
    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a message stands: places are in the order of the stream.

    The rows of the contents after entry 7 stand after the rows of entry 7.

    >>> Place(7, False, 3) < Place(7, True, 1) < Place(8, False, 1)
    True
    """

    outbox_id: int
    in_contents: bool
    row_number: int

    def written(self, pgt_id: int) -> str:
        """Return the stable id of the message, by which receivers know it again.

        >>> Place(7, False, 3).written(12), Place(7, True, 3).written(12)
        ('12:7:3', '12:7:s3')
        """
        return f"{pgt_id}:{self.outbox_id}:{'s' if self.in_contents else ''}{self.row_number}"


_ID = re.compile(r"([0-9]{1,19}):([0-9]{1,19}):(s?)([0-9]{1,19})")


def read_id(text: str) -> tuple[int, Place]:
    """Return the stream table and the place that an id tells.

    >>> read_id("12:7:s3") == (12, Place(7, True, 3))
    True
    """
    found = _ID.fullmatch(text)
    if found is None:
        raise EnvelopeError(f"the id {text[:80]!r} is none of a relay")
    return int(found[1]), Place(int(found[2]), bool(found[3]), int(found[4]))


@dataclass(frozen=True, slots=True)
class Stream:
    """The stream table whose changes are told."""

    pgt_id: int
    database: str
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a stream's rows, and its key, in one version."""

    version: int
    columns: tuple[tuple[str, str], ...]  # name and type
    key: tuple[str, ...] | None


_FLOATS = frozenset({"double precision", "real"})


def write_key(key: str | None, schema: Schema) -> str | None:
    """Return a key in the one form that equal keys have: receivers compare texts.

    >>> schema = Schema(1, (("a", "numeric"), ("b", "text"), ("c", "real")), ("a", "b", "c"))
    >>> write_key('{"a": 1.00, "b": "2.0", "c": "-0"}', schema)
    '{"a": 1, "b": "2.0", "c": 0}'
    """
    if key is None or not ("." in key or "-0" in key):
        return key
    types = dict(schema.columns)
    values = json.loads(key, parse_float=Number, parse_int=Number)
    parts = []
    for name, value in values.items():
        match value:
            case Number():
                written = value.rstrip("0").rstrip(".") if "." in value else str(value)
            case "-0" if types.get(name) in _FLOATS:
                written = "0"
            case _:
                written = json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(name, ensure_ascii=False)}: {written}")
    return "{" + ", ".join(parts) + "}"


class Number(str):
    """A number of JSON as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Message:
    """One message; ``key``, ``before`` and ``after`` are JSON texts."""

    stream: Stream
    schema: Schema
    place: Place
    op: Op
    key: str | None
    before: str | None
    after: str | None
    data_timestamp: datetime | None
    replayed: bool = False  # a dead letter: it comes later than its place, which stays where it is

    @property
    def id(self) -> str:
        """The stable id."""
        return self.place.written(self.stream.pgt_id)

    @property
    def size(self) -> int:
        """About how many characters it takes."""
        return len(self.before or "") + len(self.after or "") + len(self.key or "")
