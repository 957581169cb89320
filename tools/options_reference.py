"""Write docs/reference/options.md: every option of a stream table, from its definition."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from pgtrickle.options.option import Option, OptionVerb
from pgtrickle.options.stream_table import OPTIONS

_INTRODUCTION = (
    "What can be said of a stream table when it is created or altered, under one name in Python,"
    " in SQL and, with dashes, in the shell: `schedule=\"5m\"`, `schedule => '5m'`,"
    " `--schedule 5m`. `create_stream_table`, `create_stream_table_if_not_exists`,"
    " `create_or_replace_stream_table` and each definition of `bulk_create` take the options of"
    " *create*; `alter_stream_table` and `bulk_alter_stream_tables` take those of *alter*. What is"
    " not given, or NULL, has its default in a new stream table and stays as it is in an existing"
    " one; `create_or_replace_stream_table` brings {stated} back to their defaults."
    " `stream_table_spec` carries every option, except {once}: those are what a verb does once;"
    " `export_definition` carries them, too. Options that begin with the name of a sink need the"
    " sink to be given."
)
_HEADING = ["option", "verbs", "type", "default", "range", "meaning", "since"]


def options_page() -> Iterator[str]:
    """Yield the parts of the page."""
    stated = [f"`{one.name}`" for one in OPTIONS.values() if one.stated and one.kept]
    once = [f"`{one.name}`" for one in OPTIONS.values() if not one.kept]
    yield _INTRODUCTION.format(stated=" and ".join(stated), once=" and ".join(once))
    rows = [_HEADING, ["---"] * len(_HEADING), *map(_row, OPTIONS.values())]
    yield "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(one: Option) -> list[str]:
    default = one.default.value if isinstance(one.default, Enum) else one.default
    return [
        f"`{one.name}`",
        ", ".join(verb.value for verb in one.verbs),
        "choice" if one.choices else "text" if one.kind is str else one.kind.__name__,
        "" if default is None else f"`{str(default).lower() if default is True else default}`",
        _range(one),
        one.help(OptionVerb.ALTER if OptionVerb.ALTER in one.verbs else OptionVerb.CREATE),
        one.since,
    ]


def _range(one: Option) -> str:
    if one.choices:
        return ", ".join(f"`{word}`" for word in one.choices)
    if one.low is None:
        return ""
    return f"from {one.low}" if one.high is None else f"{one.low} to {one.high}"
