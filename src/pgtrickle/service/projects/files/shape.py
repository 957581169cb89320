"""The shape that the files of a project must have."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.errors import ProjectFileError
from pgtrickle.model.projects.project import REPLACE, SHADOW
from pgtrickle.options.stream_table import OPTIONS
from pgtrickle.service.lifecycle.definitions.shape import TABLE
from pgtrickle.service.projects.files.template import put_in
from pgtrickle.service.shapes import (
    FLAG,
    NAMES,
    TEXT,
    WORDS,
    Keys,
    Shape,
    anything,
    is_a,
    list_of,
    mapping_of,
    one_or_more,
)

KEPT = tuple(name for name, one in OPTIONS.items() if one.kept)


def check_shape(value: object, shape: Shape, file: str) -> None:
    """Raise ST506 with everything that is wrong, unless a value has its shape."""
    if wrong := list(shape(value, "")):
        raise ProjectFileError(
            f"{file} is not as a file of a project should be",
            detail="\n".join(wrong[:20]),
            hint="docs/projects.md lists every entry, with an example.",
        )


def _one_of(*words: str) -> Shape:
    def check(value: object, place: str) -> Iterator[str]:
        if value not in words:
            yield f"{place}: {value!a} is none of {', '.join(words)}"

    return check


def _or_variable(shape: Shape) -> Shape:
    """Accept a variable, too: its value is read when it is put in."""

    def check(value: object, place: str) -> Iterator[str]:
        seen: list[str] = []

        def note(name: str) -> object:
            seen.append(name)
            return value

        put_in(value, note)
        if not seen:
            yield from shape(value, place)

    return check


_SCALAR = is_a((str, int, float, bool, type(None)), "a text, a number, true or false")


def _scalar(value: object, place: str) -> Iterator[str]:
    if not isinstance(value, bool):
        yield from _SCALAR(value, place)


_GRAVITY: dict[str, Shape] = {"name": TEXT, "severity": _one_of("fail", "warn")}
_RELATIONSHIPS = Keys({"column": TEXT, "to": TEXT, "field": TEXT}, {})
_ACCEPTED = Keys({"column": TEXT, "values": _or_variable(list_of(_scalar))}, {})
TESTS: dict[str, Shape] = {
    "unique": one_or_more(TEXT),
    "not_null": one_or_more(TEXT),
    "accepted_values": _ACCEPTED,
    "relationships": _RELATIONSHIPS,
    "query": TEXT,
}


def _test(value: object, place: str) -> Iterator[str]:
    kinds = [kind for kind in TESTS if isinstance(value, dict) and kind in value]
    if len(kinds) != 1:
        yield f"{place}: one of these is needed: {', '.join(TESTS)}"
        return
    yield from Keys({kinds[0]: TESTS[kinds[0]]}, _GRAVITY)(value, place)


_OPTIONS: dict[str, Shape] = dict.fromkeys([*KEPT, "initialize"], anything)  # verbs read the words
_SAID: dict[str, Shape] = {
    "sla": _or_variable(TEXT),
    "on_change": _or_variable(_one_of(REPLACE, SHADOW)),
    "search_path": TEXT,
    "owner": TEXT,
    "tags": NAMES,
}
_TABLE: dict[str, Shape] = {
    **_OPTIONS,
    **_SAID,
    "name": TEXT,
    "schema": TEXT,
    "enabled": _or_variable(FLAG),
    "allow_breaking": FLAG,
    "description": TEXT,
    "columns": WORDS,
    "table": TABLE,
    "depends_on": NAMES,
    "tests": list_of(_test),
}
FRONT_MATTER = Keys({}, _TABLE)
_TARGET = Keys(
    {},
    {"schema_prefix": TEXT, "sources": WORDS, "variables": mapping_of(anything), "default": FLAG},
)
PROJECT = Keys(
    {"project": TEXT},
    {
        "schema": TEXT,
        "paths": NAMES,
        "variables": mapping_of(anything),
        "defaults": Keys({}, {**_OPTIONS, **_SAID}),
        "targets": mapping_of(_TARGET),
        "stream_tables": mapping_of(Keys({"query": TEXT}, _TABLE)),
    },
)
