"""The definition of an option: name, type, default, range, meaning, and the verbs that take it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

FIRST_RELEASE = "0.1.0"


class OptionVerb(Enum):
    """A verb that takes options."""

    CREATE = "create"
    ALTER = "alter"


BOTH = (OptionVerb.CREATE, OptionVerb.ALTER)


@dataclass(frozen=True, slots=True)
class Option:
    """One option, as users write it on every surface."""

    name: str
    kind: type  # of its words: str, bool, int or float
    default: Any  # the value of a new stream table
    doc: str
    read: Callable[[Any], Any]  # the value of a word; raises if there is none
    verbs: tuple[OptionVerb, ...] = BOTH
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    stated: bool = False  # create says its default, so create_or_replace brings it back
    reset: str = ""  # the word that brings the default back
    reset_doc: str = ""
    sink: str = ""  # the sink that it belongs to
    kept: bool = True  # a part of the definition; else something that a verb does once
    since: str = FIRST_RELEASE

    def help(self, verb: OptionVerb) -> str:
        """Return its meaning, and how one verb takes it back.

        >>> one = Option("most", int, None, "The most rows.", int, reset="no", reset_doc="all")
        >>> one.help(OptionVerb.CREATE), one.help(OptionVerb.ALTER)
        ('The most rows.', 'The most rows; no: all.')
        """
        if verb is OptionVerb.CREATE or not self.reset:
            return self.doc
        return f"{self.doc.removesuffix('.')}; {self.reset}: {self.reset_doc}."

    def words(self, verb: OptionVerb) -> tuple[str, ...]:
        """Return the words to choose from, if it has such."""
        back = (self.reset,) if self.reset and verb is OptionVerb.ALTER else ()
        return (*self.choices, *back) if self.choices else ()

    @property
    def word(self) -> Any:
        """The word that ``create`` uses if the option is left out, or None."""
        if not self.stated:
            return None
        return self.default.value if isinstance(self.default, Enum) else self.default

    def json_types(self) -> tuple[type, ...]:
        """Return the types that its words have in the arguments of a request."""
        numbers = (int, float) if self.kind is float else (self.kind,)
        return (*numbers, str) if self.reset and self.kind is not str else numbers

    def sql_type(self, verb: OptionVerb) -> str:
        """Return the type of its argument in SQL; a number that takes a word, too, is text."""
        if self.reset and verb is OptionVerb.ALTER:
            return "text"
        return {str: "text", bool: "bool", int: "int8", float: "float8"}[self.kind]


def option(
    default: Any,
    doc: str,
    kind: type = str,
    *,
    read: Callable[[Any], Any],
    name: str = "",
    **facts: Any,
) -> Any:
    """Define an option as a field of a dataclass; its name is the field's, or ``name``."""
    made = {"name": name, "kind": kind, "doc": doc, "read": read, **facts}
    return field(default=default, metadata={"option": made})


def list_options(holder: type) -> Iterator[tuple[str, Option]]:
    """Yield the options that a dataclass defines, each with the name of its field."""
    for one in fields(holder):
        if "option" in one.metadata:
            facts = {**one.metadata["option"], "default": one.default}
            facts["name"] = facts["name"] or one.name
            yield one.name, Option(**facts)


def words_of(kind: type[Enum]) -> tuple[str, ...]:
    """Return the words of an enum, as users write them.

    >>> words_of(Enum("Answer", {"YES": "yes", "NO": "no"}))
    ('yes', 'no')
    """
    return tuple(str(one.value) for one in kind)
