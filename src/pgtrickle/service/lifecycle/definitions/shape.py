"""The shape that a dump must have: a file that somebody wrote is read with it, before it is used.

Only the shape: what the words mean, the verbs check that get them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pgtrickle.errors import DumpDamagedError
from pgtrickle.model.definitions.dump import PLACEHOLDER, STREAM_TABLE, VIEW
from pgtrickle.model.text.lengths import shorten
from pgtrickle.options.stream_table import OPTIONS

Shape: TypeAlias = Callable[[object, str], Iterator[str]]  # yields what is wrong, given the place

_HINT = "Dump the definitions again, or undo what was changed in the file."


def check_shape(value: object, shape: Shape, file: str) -> None:
    """Raise ST223 with everything that is wrong, unless a value has its shape."""
    if wrong := list(shape(value, "")):
        raise DumpDamagedError(
            f"{file} is not a dump of definitions, or is damaged",
            detail="\n".join(wrong[:20]),
            hint=_HINT,
        )


def _is(kind: type | tuple[type, ...], word: str) -> Shape:
    def check(value: object, place: str) -> Iterator[str]:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            yield f"{place or 'the file'}: {word} is missing, found {shorten(repr(value))}"

    return check


def _list_of(shape: Shape) -> Shape:
    def check(value: object, place: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield from _is(list, "a list")(value, place)
            return
        for number, one in enumerate(value):
            yield from shape(one, f"{place}[{number}]")

    return check


def _words(value: object, place: str) -> Iterator[str]:
    """Accept a mapping of names to texts."""
    if not isinstance(value, dict):
        yield from _is(dict, "a mapping")(value, place)
        return
    for key, one in value.items():
        yield from TEXT(key, place)
        yield from TEXT(one, f"{place}.{key}")


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping with these keys; ``optional`` ones may be missing, others are a mistake."""

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape]

    def __call__(self, value: object, place: str) -> Iterator[str]:
        """Yield what is wrong."""
        if not isinstance(value, dict):
            yield from _is(dict, "a mapping")(value, place)
            return
        for key, one in value.items():
            shape = self.required.get(key) or self.optional.get(key)
            where = f"{place}.{key}".lstrip(".")
            if shape is None:
                yield f"{where}: this version knows no such entry"
            else:
                yield from shape(one, where)
        yield from (
            f"{place}.{key}: is missing".lstrip(".") for key in self.required.keys() - value
        )


def _anything(_: object, __: str) -> Iterator[str]:
    yield from ()


TEXT = _is(str, "a text")
_FLAG = _is(bool, "true or false")
_NUMBER = _is((int, float), "a number")
_COUNT = _is(int, "a whole number")
_NAMES = _list_of(TEXT)


def _optional(shape: Shape) -> Shape:
    def check(value: object, place: str) -> Iterator[str]:
        if value is not None:
            yield from shape(value, place)

    return check


_OBJECT = Keys(
    {"kind": TEXT, "name": TEXT, "definition": TEXT},
    {"unique": _FLAG, "comment": TEXT, "roles": _NAMES, "enabled": TEXT},
)
_GRANT = Keys({"privileges": _NAMES}, {"to": TEXT, "column": TEXT, "grantable": _FLAG})
_TABLE = Keys(
    {},
    {
        "comment": TEXT,
        "column_comments": _list_of(Keys({"column": TEXT, "comment": TEXT}, {})),
        "storage_parameters": _words,
        "objects": _list_of(_OBJECT),
        "replica_identity": TEXT,
        "replica_index": TEXT,
        "row_security": TEXT,
        "grants": _list_of(_GRANT),
    },
)
ROWS = Keys({"file": TEXT, "rows": _COUNT, "sha256": TEXT, "data_timestamp": TEXT}, {})
_ITEMS: Mapping[str, Keys] = {
    STREAM_TABLE: Keys(
        {
            "kind": TEXT,
            "name": TEXT,
            "query": TEXT,
            "search_path": TEXT,
            "initialize": _FLAG,
            "status": TEXT,
            "paused": _FLAG,
            "sources": _NAMES,
            "uses": _list_of(Keys({"kind": TEXT, "name": TEXT}, {})),
            "table": _TABLE,
            "subscriptions": _list_of(Keys({"channel": TEXT, "role": TEXT}, {})),
        },
        {
            "owner": TEXT,
            "rows": ROWS,
            "sla_s": _NUMBER,
            # The verbs read their words.
            **{name: _anything for name, one in OPTIONS.items() if one.kept},
        },
    ),
    VIEW: Keys({"kind": TEXT, "name": TEXT, "definition": TEXT, "table": _TABLE}, {}),
    PLACEHOLDER: Keys({"kind": TEXT, "name": TEXT, "query": TEXT}, {}),
}


def item(value: object, place: str) -> Iterator[str]:
    """Accept a stream table, a view or a placeholder."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _ITEMS:
        yield f"{place or 'the file'}: a kind is missing: {', '.join(_ITEMS)}"
        return
    yield from _ITEMS[kind](value, place)


_HEAD: Mapping[str, Shape] = {
    "pgtrickle_dump": _COUNT,
    "package": TEXT,
    "postgresql": _COUNT,
    "database": TEXT,
    "complete": _FLAG,
}
_WHOLE: Mapping[str, Shape] = {
    "settings": _words,
    "access": _list_of(Keys({"role": TEXT, "level": TEXT}, {})),
    "lake_tables": _list_of(
        Keys(
            {
                "name": TEXT,
                "lake_table": TEXT,
                "columns": _NAMES,
                "catalog_schema": TEXT,
                "compaction_policy": TEXT,
            },
            {},
        )
    ),
    "gates": _NAMES,
    "watermarks": _list_of(Keys({"source": TEXT, "watermark": TEXT}, {})),
    "watermark_groups": _list_of(
        Keys({"name": TEXT, "sources": _NAMES, "tolerance_secs": _NUMBER}, {})
    ),
    "refresh_groups": _list_of(Keys({"name": TEXT, "members": _NAMES, "isolation": TEXT}, {})),
}
ONE_FILE = Keys({**_HEAD, **_WHOLE, "items": _list_of(item)}, {})
INDEX = Keys({**_HEAD, **_WHOLE, "files": _NAMES}, {})
PART = Keys({"pgtrickle_dump": _COUNT, "item": item, "complete": _FLAG}, {})
