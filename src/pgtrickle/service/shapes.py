"""The shape of a file that somebody wrote: what is where, and of which type.

A shape says in words what is wrong with a value, and where; the verbs check what words mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pgtrickle.model.text.lengths import shorten

Shape: TypeAlias = Callable[[object, str], Iterator[str]]  # yields what is wrong, given the place


def is_a(kind: type | tuple[type, ...], word: str) -> Shape:
    """Accept a value of a type."""

    def check(value: object, place: str) -> Iterator[str]:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            yield f"{place or 'the file'}: {word} is missing, found {shorten(repr(value))}"

    return check


def list_of(shape: Shape) -> Shape:
    """Accept a list of what a shape accepts."""

    def check(value: object, place: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield from is_a(list, "a list")(value, place)
            return
        for number, one in enumerate(value):
            yield from shape(one, f"{place}[{number}]")

    return check


@dataclass(frozen=True, slots=True)
class Keys:
    """A mapping with these keys; ``optional`` ones may be missing, others are a mistake."""

    required: Mapping[str, Shape]
    optional: Mapping[str, Shape]

    def __call__(self, value: object, place: str) -> Iterator[str]:
        """Yield what is wrong."""
        if not isinstance(value, dict):
            yield from is_a(dict, "a mapping")(value, place)
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


def mapping_of(shape: Shape) -> Shape:
    """Accept a mapping of names to what a shape accepts."""

    def check(value: object, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield from is_a(dict, "a mapping")(value, place)
            return
        for key, one in value.items():
            yield from TEXT(key, place)
            yield from shape(one, f"{place}.{key}".lstrip("."))

    return check


def one_or_more(shape: Shape) -> Shape:
    """Accept what a shape accepts, or a list of it that is not empty."""

    def check(value: object, place: str) -> Iterator[str]:
        if value == []:
            yield f"{place}: nothing is in the list"
        yield from (list_of(shape) if isinstance(value, list) else shape)(value, place)

    return check


def anything(_: object, __: str) -> Iterator[str]:
    """Accept every value."""
    yield from ()


TEXT = is_a(str, "a text")
FLAG = is_a(bool, "true or false")
NUMBER = is_a((int, float), "a number")
COUNT = is_a(int, "a whole number")
NAMES = list_of(TEXT)
WORDS = mapping_of(TEXT)
