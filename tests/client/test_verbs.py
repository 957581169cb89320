"""A verb is in Python, in the shell and in SQL, or the table of verbs says why not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from typer.main import get_command

from pgtrickle import Trickle
from pgtrickle.cli.main import app
from tools.sql_examples import EXAMPLES
from tools.verbs import VERBS, Verb

ALL = [verb for verbs in VERBS.values() for verb in verbs]


def commands() -> Iterator[str]:
    for name, command in getattr(get_command(app), "commands").items():  # noqa: B009 - a group
        inner = getattr(command, "commands", None)
        yield from (f"{name} {one}" for one in inner) if inner else [name]


def test_every_verb_of_the_client_is_in_the_table():
    methods = inspect.getmembers(Trickle, inspect.isfunction)

    assert {one.python for one in ALL} - {""} == {
        name for name, _ in methods if not name.startswith("_")
    }


def test_every_command_is_in_the_table():
    assert {one.cli for one in ALL} - {""} == set(commands())


def test_every_function_of_sql_is_in_the_table():
    shown = {name for examples in EXAMPLES.values() for name in examples}

    assert {one.sql for one in ALL} - {""} == shown


@pytest.mark.parametrize("verb", [one for one in ALL if not (one.python and one.cli and one.sql)])
def test_what_is_missing_somewhere_has_a_reason(verb: Verb):
    assert verb.why


@pytest.mark.parametrize("verb", [one for one in ALL if one.python and one.cli and one.sql])
def test_what_is_everywhere_needs_none(verb: Verb):
    assert not verb.why


def test_no_verb_is_listed_twice():
    named = [(one.python, one.cli, one.sql) for one in ALL]

    assert len(named) == len(set(named))
