"""Rows with a schema, as the JSON converter of Kafka Connect reads them.

It reads a value only in the form that its type has, and takes another one for null or for zero.  So
integers and booleans are those of JSON, and everything else is the text of its type: ``numeric``
with every digit, floats with their NaN, arrays and documents as they are written.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, Final

from pgtrickle.relay.messages import Number, Schema

_PLAIN: Final = {
    "smallint": "int16",
    "integer": "int32",
    "bigint": "int64",
    "boolean": "boolean",
}
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")


def write_row(row: str | None, schema: Schema) -> str:
    r"""Return a row, or a key, with each value in the form of its type.

    >>> schema = Schema(1, (("n", "bigint"), ("v", "numeric"), ("more", "jsonb")), ("n",))
    >>> write_row('{"n": 1, "v": 1.00, "more": {"a": [2.50, null]}}', schema)
    '{"n": 1, "v": "1.00", "more": "{\\"a\\": [2.50, null]}"}'
    """
    if row is None:
        return "null"
    values = json.loads(row, parse_int=Number, parse_float=Number)
    types = dict(schema.columns)
    parts = (f"{_text(name)}: {_value(one, types.get(name, ''))}" for name, one in values.items())
    return "{" + ", ".join(parts) + "}"


def _value(value: Any, type_: str) -> str:
    if value is None:
        return "null"
    if type_ in _PLAIN:
        return _written(value)
    return _text(value if isinstance(value, str) else _written(value))


def _written(value: Any) -> str:
    """Write JSON, numbers as they were."""
    match value:
        case Number():
            return str(value)
        case dict():
            parts = (f"{_text(name)}: {_written(one)}" for name, one in value.items())
            return "{" + ", ".join(parts) + "}"
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case _:
            return _text(value)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=256)
def write_schema(schema: Schema, stream: str, source: tuple[tuple[str, str], ...]) -> str:
    """Return the schema of an envelope, as Debezium's have it.

    ``source`` has the fields that tell where a change is from, with their types.
    """
    name = _NOT_IN_NAMES.sub("_", stream)
    columns = [
        {"type": _PLAIN.get(type_, "string"), "optional": True, "field": column}
        for column, type_ in schema.columns
    ]
    told = [{"type": type_, "optional": True, "field": field} for field, type_ in source]
    row = {"type": "struct", "fields": columns, "optional": True}
    described = {
        "type": "struct",
        "optional": False,
        "name": f"pgtrickle.{name}.Envelope",
        "version": schema.version,
        "fields": [
            {**row, "name": f"pgtrickle.{name}.Value", "field": "before"},
            {**row, "name": f"pgtrickle.{name}.Value", "field": "after"},
            {
                "type": "struct",
                "fields": told,
                "optional": False,
                "name": "pgtrickle.Source",
                "field": "source",
            },
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
    }
    return json.dumps(described, ensure_ascii=False)
