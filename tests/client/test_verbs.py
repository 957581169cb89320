"""A verb is in Python, in the shell and in SQL, or the table of verbs says why not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest
from typer.main import get_command

from pgtrickle import Trickle
from pgtrickle.cli.main import app
from tools.sql_examples import EXAMPLES
from tools.surface_reference import SUBJECTS
from tools.verbs import VERBS, Verb

ALL = [verb for verbs in VERBS.values() for verb in verbs]


def commands() -> Iterator[str]:
    for name, command in getattr(get_command(app), "commands").items():  # noqa: B009 - a group
        inner = getattr(command, "commands", None)
        yield from (f"{name} {one}" for one in inner) if inner else [name]


def methods(kind: type) -> Iterator[str]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return (name for name, _ in found if not name.startswith("_"))


def test_every_verb_of_the_client_is_in_the_table():
    own = set(methods(Trickle))
    by_subject = {f"{name}.{verb}" for name, kind in SUBJECTS.items() for verb in methods(kind)}

    assert {one.python for one in ALL} - {""} == own | by_subject


def test_client_has_the_verbs_of_daily_use_and_the_rest_are_behind_its_attributes():
    public = {name for name in dir(Trickle) if not name.startswith("_")}

    assert public - set(methods(Trickle)) == {*SUBJECTS, "daemon"}
    assert len(set(methods(Trickle))) <= 35


@pytest.mark.parametrize("name", SUBJECTS)
def test_attribute_of_the_client_holds_the_verbs_on_its_subject(name: str):
    [shown] = getattr(Trickle, name).func.__annotations__.values()

    assert shown == SUBJECTS[name].__name__


def test_no_verb_is_both_on_the_client_and_behind_an_attribute():
    named = [name for kind in (Trickle, *SUBJECTS.values()) for name in methods(kind)]

    assert len(named) == len(set(named))


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
