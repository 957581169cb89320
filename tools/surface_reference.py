"""Write docs/reference/: what Python and the shell take, and the table of verbs, from code."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any

from typer.main import get_command

import pgtrickle
from pgtrickle import (
    CaptureVerbs,
    DefinitionVerbs,
    InsightVerbs,
    LakeVerbs,
    OutboxVerbs,
    ProjectVerbs,
    SchedulerVerbs,
    ShadowVerbs,
    SnapshotVerbs,
    Trickle,
)
from pgtrickle.cli.main import app
from pgtrickle.client.streams.inbound import InboundVerbs
from pgtrickle.client.streams.inbox import InboxVerbs
from pgtrickle.client.streams.relay import RelayVerbs
from pgtrickle.client.table import Table
from pgtrickle.model import words
from tools.verbs import VERBS, Verb

SUBJECTS = {
    "scheduler": SchedulerVerbs,
    "capture": CaptureVerbs,
    "lake": LakeVerbs,
    "outbox": OutboxVerbs,
    "inbound": InboundVerbs,
    "inbox": InboxVerbs,
    "relay": RelayVerbs,
    "snapshots": SnapshotVerbs,
    "shadows": ShadowVerbs,
    "definitions": DefinitionVerbs,
    "projects": ProjectVerbs,
    "insight": InsightVerbs,
}  # by the attribute of the client that holds their verbs
_PYTHON_INTRODUCTION = (
    "The functions and types on this page are imported from `pgtrickle`. Names of stream tables"
    ' are written as in a query: `"revenue"`, `"shop.revenue"`, `\'shop."Daily Sales"\'`; without'
    " a schema, the first"
    " one of the role's search path is meant. Every error is a `pgtrickle.errors.TrickleError`, of"
    " one of the [families](../errors.md). Where a word is a choice, the member of its enum is as"
    ' good: `refresh_mode=RefreshMode.FULL` or `"FULL"`. Reports and listings print well, and'
    " render in notebooks. Verbs on one subject are behind an attribute of the client:"
    " `trickle.scheduler.drain()`. The same verbs in the shell and in SQL: [verbs.md](verbs.md)."
)
_CLI_INTRODUCTION = (
    "What each command takes. How they are used, and their exit codes: [cli.md](../cli.md). The"
    " same verbs in Python and in SQL: [verbs.md](verbs.md)."
)
_VERBS_INTRODUCTION = (
    "The same verbs in [Python](python.md), in the [shell](cli.md) and in"
    " [SQL](../sql_reference.md). A test fails until a new verb is in this table, or what keeps it"
    " out of one of the three."
)


def verbs_page() -> Iterator[str]:
    """Yield the parts of the table of verbs."""
    yield _VERBS_INTRODUCTION
    for section, verbs in VERBS.items():
        yield f"## {section}"
        yield _table(["Python", "shell", "SQL", "not everywhere, because"], map(_verb_row, verbs))


def _verb_row(verb: Verb) -> list[str]:
    name = verb.python.replace(".", "")
    python = f"[`{verb.python}`](python.md#{name})" if verb.python else ""
    anchor = verb.cli.replace(" ", "-")
    cli = f"[`{verb.cli}`](cli.md#{anchor})" if verb.cli else ""
    sql = f"[`{verb.sql}`](../sql_reference.md#{verb.sql})" if verb.sql else ""
    return [python, cli, sql, verb.why]


def python_page() -> Iterator[str]:
    """Yield the parts of the Python reference."""
    yield _PYTHON_INTRODUCTION
    yield "## Connecting"
    for function in (pgtrickle.connect, pgtrickle.register_ducklake):
        yield from _function(function.__name__, function)
    shown: set[str] = set()
    for section, verbs in VERBS.items():
        names = [one.python for one in verbs if one.python and one.python not in shown]
        shown.update(names)
        if names:
            yield f"## {section}"
        for name in dict.fromkeys(names):
            yield from _function(name, verb_of(name))
    yield "## A table in the hand"
    yield _prose(Table.__doc__ or "")
    for name, method in vars(Table).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            yield from _function(f"Table.{name}", method)
    yield "## Words"
    yield _table(["type", "words"], _words())
    yield "## Types"
    for name in pgtrickle.__all__:
        found = getattr(pgtrickle, name)
        if inspect.isclass(found) and found not in (Trickle, Table, *SUBJECTS.values()):
            yield from _type(name, found)


def verb_of(name: str) -> Callable[..., Any]:
    """Return the method that is called so, as in ``scheduler.drain``."""
    *subject, verb = name.split(".")
    found: Callable[..., Any] = getattr(SUBJECTS[subject[0]] if subject else Trickle, verb)
    return found


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    given = [one for one in signature.parameters.values() if one.name != "self"]
    listed = ", ".join(_parameters(given))
    returns = signature.return_annotation
    yield f"### {name}"
    line = f"{name}({listed}) -> {returns}"
    if len(line) > 100:
        line = f"{name}(\n    " + ",\n    ".join(_parameters(given)) + f",\n) -> {returns}"
    yield f"```python\n{line}\n```"
    yield _prose(function.__doc__ or "")


def _parameters(given: list[inspect.Parameter]) -> Iterator[str]:
    only_by_name = False
    for one in given:
        mark = "*" if one.kind is one.VAR_POSITIONAL else ""
        mark = "**" if one.kind is one.VAR_KEYWORD else mark
        if one.kind is one.KEYWORD_ONLY and not only_by_name:
            only_by_name = True
            if not any(other.kind is one.VAR_POSITIONAL for other in given):
                yield "*"
        default = "" if one.default is one.empty else f" = {_default(one.default)}"
        yield f"{mark}{one.name}: {one.annotation}{default}"


def _default(value: object) -> str:
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    return "..." if callable(value) else repr(value)


def _words() -> Iterator[list[str]]:
    for name, alias in vars(words).items():
        members = typing.get_args(alias)
        literals = [word for one in members for word in typing.get_args(one)]
        if literals:
            enums = [one.__name__ for one in members if inspect.isclass(one) and one is not str]
            listed = ", ".join(f'`"{word}"`' for word in literals)
            yield [f"`{name}`", " or ".join([*(f"`{one}`" for one in enums), listed])]


def _type(name: str, found: type) -> Iterator[str]:
    yield f"### {name}"
    yield _prose(found.__doc__ or "")
    if issubclass(found, Enum):
        notes = _comments(found)
        rows = [[f"`{one.name}`", f"`{one.value!r}`", notes.get(one.name, "")] for one in found]
        yield _table(["member", "word", "meaning"], rows)
    elif typing.is_typeddict(found):
        yield "Its keys are options: [options.md](options.md)."
    elif name == "Settings":
        yield "Its fields are the settings: [configuration.md](../configuration.md)."
    elif is_dataclass(found):
        notes = _comments(found)
        rows = [
            [f"`{one.name}`", f"`{one.type}`".replace("|", "\\|"), notes.get(one.name, "")]
            for one in fields(found)
            if one.default is MISSING or not one.name.startswith("_")
        ]
        yield _table(["field", "type", "meaning"], rows)


def _comments(found: type) -> dict[str, str]:
    """Return what the comments behind the fields of a class say."""
    notes = {}
    for line in inspect.getsource(found).splitlines():
        if match := re.fullmatch(r"    (\w+)(?::.*?| =.*?)  # (.*)", line):
            notes[match[1]] = match[2].replace("|", "\\|")
    return notes


def cli_page() -> Iterator[str]:
    """Yield the parts of the CLI reference."""
    yield _CLI_INTRODUCTION
    root: Any = get_command(app)
    yield "## pgtrickle"
    yield from _command(root, "pgtrickle")
    for name, command in root.commands.items():
        inner = getattr(command, "commands", None)
        if inner:
            for one, subcommand in inner.items():
                yield f"## {name} {one}"
                yield from _command(subcommand, f"pgtrickle {name} {one}")
        else:
            yield f"## {name}"
            yield from _command(command, f"pgtrickle {name}")


def _command(command: Any, path: str) -> Iterator[str]:
    context = command.context_class(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```text\n{path} {usage}\n```"
    yield _prose(command.help or "")
    rows = [_parameter(one, context) for one in command.params if not one.hidden]
    if rows:
        yield _table(["parameter", "meaning"], rows)


def _parameter(one: Any, context: Any) -> list[str]:
    names, meaning = one.get_help_record(context)
    return [f"`{names}`".replace("|", "\\|"), _cell(meaning)]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "\\<")


def _prose(docstring: str) -> str:
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    plain = [one for one in paragraphs if not one.lstrip().startswith(">>>")]
    return "\n\n".join(map(_paragraph, plain)).replace("``", "`")


def _paragraph(text: str) -> str:
    """Join the lines of a paragraph, or of each entry of a list."""
    entries = re.split(r"^- ", text, flags=re.MULTILINE)
    joined = [" ".join(one.split()) for one in entries]
    return joined[0] if len(joined) == 1 else "\n".join(f"- {one}" for one in joined if one)


def _table(heading: list[str], rows: typing.Iterable[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
