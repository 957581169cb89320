"""Write docs/compatibility.md from the facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import groupby
from typing import TypeVar

from pgtrickle.errors import TrickleError
from pgtrickle.options.option import OptionVerb
from pgtrickle.options.stream_table import OPTIONS
from pgtrickle.settings import SESSION_SETTINGS, Settings
from tools.compatibility.facts import (
    ARGUMENTS,
    BEHAVIOURS,
    CHANNELS,
    FAILURES,
    FUNCTIONS,
    METRICS,
    RELATIONS,
    SETTINGS,
    Behaviour,
    Channel,
    Fact,
    Failure,
    Fit,
    Function,
    Relation,
    Valued,
    split_names,
)
from tools.sql_examples import EXAMPLES

_WORDS = {
    Fit.SAME: ("same", "the same name, arguments and purpose"),
    Fit.DIFFERS: ("**differs**", "the same name; the note says what is different"),
    Fit.OTHER: ("**other**", "another name or another way, which the note gives"),
    Fit.LATER: ("not yet", "missing; the note says what helps until then"),
    Fit.REFUSED: ("**no**", "decided against, or not needed; the note says why"),
}
_INTRODUCTION = (
    "pg_trickle is a PostgreSQL extension for stream tables."
    " pgtrickle has its names and most of its functions, but is a Python package outside of the"
    " server. This page lists what pg_trickle has (its version 0.67, and later announcements),"
    " with what you find here. Tests compare ours with the code and with a new catalog: what is"
    " here has these arguments, defaults and columns, and what is missing is missing."
)
_FIRST = """\
- **Nothing is converted.** Create the stream tables again from their queries; pg_trickle and
  pgtrickle both use the schema `pgtrickle`, so drop the extension first, or use another database.
- **Run a daemon**: `pgtrickle run`. The server runs nothing by itself.
- **`CALL`, not `SELECT`**, for whatever computes, outside of a transaction block. Name the
  arguments after `initialize`.
- **Catch our codes.** Errors have SQLSTATEs such as ST201; a handler for 42P01 does not see them.
- **Look at the defaults** that differ: [settings](#settings).
- **Hidden columns are gone**, so `SELECT *` is what you wrote.
- **Subscriptions** have the same payload: [channels](#channels-and-alerts)."""
_FUNCTIONS_INTRODUCTION = (
    "`CALL` marks what is a procedure here: nearly all of them ask the daemon, and each returns one"
    " value, mostly JSON. Columns are those of ours. [sql_reference.md](sql_reference.md) has an"
    " example of each."
)
_ARGUMENTS_INTRODUCTION = (
    "Of `create_stream_table`, `create_stream_table_if_not_exists` and"
    " `create_or_replace_stream_table` (*create*), and of `alter_stream_table` (*alter*). All of"
    " ours: [options](reference/options.md)."
)
_SETTINGS_INTRODUCTION = (
    "In pg_trickle they are `pg_trickle.<name>`. Here too, and `PGTRICKLE_<NAME>` in the"
    " environment, and a table: [configuration.md](configuration.md)."
)
_ERRORS_INTRODUCTION = (
    "Ours have a code as SQLSTATE, one class for each in Python, and a hint that says what to do:"
    " [errors.md](errors.md). The scheduler decides by them, never by the text of a message, so the"
    " language of the server does not matter."
)
_CHANNELS_INTRODUCTION = (
    "Payloads are JSON objects. An alert is *same* if it has the same name and occasion; compare"
    " its keys with those that you read. While the server's queue of notifications fills up, none"
    " is sent to the first two channels: no refresh and no writer may fail because of a listener."
    " Anyone can NOTIFY on a channel, so treat a message as a hint and look at the tables."
)
_ONLY_INTRODUCTION = "These have no counterpart in pg_trickle 0.67."
NamedT = TypeVar("NamedT", Function, Valued, Relation, Channel, Failure, Behaviour)


def compatibility_page() -> Iterator[str]:
    """Yield the parts of the page."""
    yield _INTRODUCTION
    yield _table(["word", "meaning", *_KINDS], _summary())
    yield "## First"
    yield _FIRST
    yield "## Functions and procedures"
    yield _FUNCTIONS_INTRODUCTION
    yield from _sections(FUNCTIONS, ["pg_trickle", "", "here", "note"], _function)
    yield "## Arguments of create and alter"
    yield _ARGUMENTS_INTRODUCTION
    heading = ["argument", "of", "default there", "", "default here", "note"]
    yield _table(heading, map(_argument, ARGUMENTS))
    yield "## Settings"
    yield _SETTINGS_INTRODUCTION
    heading = ["setting", "default there", "", "default here", "note"]
    yield from _sections(SETTINGS, heading, _setting)
    yield "## Tables and views"
    yield from _sections(RELATIONS, ["pg_trickle", "", "columns", "note"], _relation)
    yield "## Errors"
    yield _ERRORS_INTRODUCTION
    yield _table(["pg_trickle", "SQLSTATE", "here", "note"], map(_failure, FAILURES))
    yield "## Channels and alerts"
    yield _CHANNELS_INTRODUCTION
    yield from _sections(CHANNELS, ["name", "", "keys of ours", "note"], _channel)
    yield "## Metrics"
    yield "Ours begin with `pgtrickle_`. All of them: [metrics.md](metrics.md)."
    yield _table(["pg_trickle", "", "here", "note"], map(_metric, METRICS))
    yield "## Behaviour"
    yield from _sections(BEHAVIOURS, ["", "pg_trickle", "here"], _behaviour)
    yield "## Only here"
    yield _ONLY_INTRODUCTION
    yield _table(["kind", "names"], only_here().items())


_KINDS: dict[str, Sequence[Fact]] = {
    "functions": FUNCTIONS,
    "arguments": ARGUMENTS,
    "settings": SETTINGS,
    "tables, views": RELATIONS,
    "channels, alerts": CHANNELS,
    "metrics": METRICS,
}


def _summary() -> Iterator[list[str]]:
    counts = {kind: Counter(one.fit for one in facts) for kind, facts in _KINDS.items()}
    for fit, (word, meaning) in _WORDS.items():
        yield [word, meaning, *(str(counts[kind][fit]) for kind in _KINDS)]


def only_here() -> dict[str, str]:
    """Return what has no counterpart in pg_trickle, by kind."""
    routines = [name for examples in EXAMPLES.values() for name in examples]
    settings = [*(one.name for one in fields(Settings)), *SESSION_SETTINGS]
    arguments = [one.name for one in OPTIONS.values() if OptionVerb.CREATE in one.verbs]
    return {
        "functions and procedures": _without(routines, FUNCTIONS),
        "arguments of create": _without(arguments, ARGUMENTS),
        "settings": _without(settings, SETTINGS),
    }


def _without(names: Iterable[str], facts: Sequence[Fact]) -> str:
    known = {one.name for one in facts if one.fit.is_here} | {one.instead for one in facts}
    return ", ".join(f"`{name}`" for name in names if name not in known)


def _sections(
    facts: Sequence[NamedT], heading: list[str], row: Callable[[NamedT], list[str]]
) -> Iterator[str]:
    for section, inside in groupby(facts, key=lambda one: one.section):
        yield f"### {section}"
        yield _table(heading, map(row, inside))


def _function(one: Function) -> list[str]:
    here = one.here or (f"{one.instead}()" if one.instead else "")
    columns = f"Columns: {_listed(one.columns)}." if one.columns else ""
    return [_code(f"{one.name}({one.there})"), _word(one), _code(here), _joined(columns, one.note)]


def _argument(one: Valued) -> list[str]:
    return [_code(one.name), one.verbs, _code(one.there), _word(one), *_value(one)]


def _setting(one: Valued) -> list[str]:
    return [_code(one.name), _code(one.there), _word(one), *_value(one)]


def _value(one: Valued) -> list[str]:
    instead = f"It is {_code(one.instead)}." if one.instead else ""
    return [_code(one.here), _joined(instead, one.note)]


def _relation(one: Relation) -> list[str]:
    renamed = ", ".join(f"`{there}` is `{ours}`" for there, ours in one.other.items())
    parts = (
        f"It is {_code(one.instead)}." if one.instead else "",
        f"The same: {_listed(one.same)}." if one.same else "",
        f"Renamed: {renamed}." if renamed else "",
        f"Not here: {_listed(one.without)}." if one.without else "",
        f"Ours: {_listed(one.columns)}." if one.columns else "",
    )
    return [_code(one.name), _word(one), _joined(*parts), one.note]


def _failure(one: Failure) -> list[str]:
    name = one.name if " " in one.name else _code(one.name)
    codes = split_names(one.codes)
    ours = ", ".join(f"`{code}` {TrickleError.registry[code].__name__}" for code in codes)
    return [name, one.there, ours, one.note]


def _channel(one: Channel) -> list[str]:
    return [_code(one.name), _word(one), _listed(one.keys), one.note]


def _metric(one: Fact) -> list[str]:
    ours = one.name if one.fit.is_here else one.instead
    return [_code(one.name), _word(one), _code(ours), one.note]


def _behaviour(one: Behaviour) -> list[str]:
    return [one.name, one.there, one.here]


def _word(one: Fact) -> str:
    return _WORDS[one.fit][0]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _listed(names: str) -> str:
    return ", ".join(name if name == "…" else _code(name) for name in split_names(names))


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _table(heading: list[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
