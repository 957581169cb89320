"""Read the facts: one entry per name of pg_trickle, by section, from a TOML file per kind."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

_HERE = Path(__file__).parent
_CALL = "CALL "


class Fit(Enum):
    """How a name of pg_trickle is found here."""

    SAME = "same"
    DIFFERS = "differs"  # the same name; the note says what is different
    OTHER = "other"  # another name, or another way
    LATER = "later"  # not there yet
    REFUSED = "refused"  # decided against

    @property
    def is_here(self) -> bool:
        """Whether there is something of this name here."""
        return self in {Fit.SAME, Fit.DIFFERS}


def split_names(listed: str) -> list[str]:
    """Return the names of a list that is written with commas.

    >>> split_names("name, target = NULL"), split_names("")
    (['name', 'target = NULL'], [])
    """
    return [one.strip() for one in listed.split(",")] if listed else []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    section: str
    name: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact(_Named):
    """What stands for one name of pg_trickle."""

    fit: Fit
    instead: str = ""  # ours, if it has another name


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Fact):
    """A function of pg_trickle."""

    there: str = ""  # its parameters
    here: str = ""  # ours, with its arguments
    columns: str = ""  # of our result

    @property
    def is_procedure(self) -> bool:
        """Whether ours is called by CALL."""
        return self.here.startswith(_CALL)

    @property
    def arguments(self) -> list[str] | None:
        """The arguments of ours, as in ``target = NULL``; None: they have a table of their own."""
        inside = self.here.partition("(")[2].removesuffix(")")
        return None if inside.endswith("…") else split_names(inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Valued(Fact):
    """A setting of pg_trickle, or an argument of its create and alter."""

    there: str = ""  # its default
    here: str = ""  # the default of ours
    verbs: str = ""  # that take an argument


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation(Fact):
    """A table or view of pg_trickle's catalog."""

    same: str = ""  # its columns that are here
    other: Mapping[str, str] = field(default_factory=dict)  # those of another name, to ours
    without: str = ""  # those that are not here
    columns: str = ""  # all of ours, if they are to be complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel(Fact):
    """A channel of notices, or an event on one."""

    keys: str = ""  # of the JSON that ours carries


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure(_Named):
    """An error of pg_trickle."""

    there: str  # its SQLSTATE
    codes: str = ""  # ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour(_Named):
    """Something that pg_trickle does, and what is done here."""

    there: str
    here: str


NamedT = TypeVar("NamedT", bound=_Named)


def _read(kind: type[NamedT], file: str) -> Iterator[NamedT]:
    sections = tomllib.loads((_HERE / f"{file}.toml").read_text(encoding="utf-8"))
    for section, entries in sections.items():
        for name, entry in entries.items():
            given: dict[str, Any] = dict(entry)
            if "fit" in given:
                given["fit"] = Fit(given["fit"])
            yield kind(section=section, name=name, **given)


FUNCTIONS = tuple(_read(Function, "functions"))
ARGUMENTS = tuple(_read(Valued, "arguments"))
SETTINGS = tuple(_read(Valued, "settings"))
RELATIONS = tuple(_read(Relation, "tables"))
METRICS = tuple(_read(Fact, "metrics"))
CHANNELS = tuple(_read(Channel, "events"))
FAILURES = tuple(_read(Failure, "errors"))
BEHAVIOURS = tuple(_read(Behaviour, "behaviour"))
