"""The options given to a verb: their values, and which of them were given at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgtrickle.errors import SettingError
from pgtrickle.options.option import Option
from pgtrickle.options.stream_table import OPTIONS, SINK_OPTIONS, StreamTableOptions, make_options


@dataclass(frozen=True, slots=True)
class Changes:
    """The options that were given; one that was not given stays as it is.

    An option that is given and has its default, such as None, is brought back to it.
    """

    options: StreamTableOptions = StreamTableOptions()
    given: frozenset[str] = frozenset()

    @classmethod
    def read(cls, words: Mapping[str, object]) -> Changes:
        """Read the words of users; None is not given.  Raise ST501 for one that does not exist.

        >>> changes = Changes.read({"tier": "Cold", "max_delta_fraction": "default", "fuse": None})
        >>> sorted(changes.given), changes.options.tier, changes.options.max_delta_fraction
        (['max_delta_fraction', 'tier'], <Tier.COLD: 'cold'>, None)
        """
        given = {name: one for name, one in words.items() if one is not None and name in OPTIONS}
        values = {name: _read(OPTIONS[name], one) for name, one in given.items()}
        for name in given:
            if OPTIONS[name].sink and "sink" not in given:
                raise SettingError(
                    f'the option "{name}" belongs to a sink, and none is given',
                    hint=f"Give the sink, too: {OPTIONS[name].sink}.",
                )
        return cls(make_options(values), frozenset(given))

    @classmethod
    def to(cls, options: StreamTableOptions) -> Changes:
        """Return what makes a new stream table have these options.

        >>> Changes.to(StreamTableOptions(schedule="5m")).values()
        {'schedule': '5m'}
        """
        everything = cls(options, frozenset(OPTIONS))
        return everything.differing_from(StreamTableOptions())

    def __contains__(self, name: str) -> bool:
        return name in self.given

    def __bool__(self) -> bool:
        return bool(self.given)

    def values(self) -> dict[str, Any]:
        """Return the values that were given, in the order of the definition."""
        return {name: self.options.value(name) for name in OPTIONS if name in self.given}

    def without(self, *names: str) -> Changes:
        """Return the same, but for some options."""
        values = {name: one for name, one in self.values().items() if name not in names}
        return Changes(make_options(values), frozenset(values))

    def having(self, **values: object) -> Changes:
        """Return the same, and what else is given.

        >>> Changes.read({"schedule": "5m"}).having(fuse=7).values()
        {'schedule': '5m', 'fuse': 7}
        """
        given = self.values() | values
        return Changes(make_options(given), frozenset(given))

    def differing_from(self, current: StreamTableOptions) -> Changes:
        """Return those by which a stream table would become another.

        The options of a sink belong together: one that differs brings the others along.

        >>> Changes.read({"tier": "cold", "schedule": "5m"}).differing_from(
        ...     StreamTableOptions(schedule="5m")
        ... ).values()
        {'tier': <Tier.COLD: 'cold'>}
        """
        same = {name for name, one in self.values().items() if one == current.value(name)}
        of_sink = self.given & SINK_OPTIONS
        return self.without(*(same if of_sink <= same else same - of_sink))


def read_options(words: Mapping[str, object]) -> StreamTableOptions:
    """Read the options of a new stream table; what is None or missing has its default."""
    return Changes.read(words).options


def _read(definition: Option, word: Any) -> Any:
    if definition.reset and isinstance(word, str) and word.casefold() == definition.reset:
        return definition.default
    return definition.read(word)
