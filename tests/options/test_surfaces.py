"""Python, the shell and requests take exactly the options that are defined, in that order."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from typer.main import get_command

from pgtrickle import Trickle
from pgtrickle.cli.main import app
from pgtrickle.errors import SettingError
from pgtrickle.options.changes import Changes, read_options
from pgtrickle.options.option import Option, OptionVerb
from pgtrickle.options.stream_table import (
    OPTIONS,
    SINK_OPTIONS,
    StreamTableOptions,
    options_of,
    stated_words,
)
from pgtrickle.options.words import AlterOptions, AlterWords, CreateOptions, Definition
from pgtrickle.service.requests.verbs import VERBS
from tests.options.examples import words

CREATE, ALTER = OptionVerb.CREATE, OptionVerb.ALTER
METHODS: dict[OptionVerb, Callable[..., Any]] = {
    CREATE: Trickle.create_stream_table,
    ALTER: Trickle.alter_stream_table,
}
TYPED = {CREATE: CreateOptions, ALTER: AlterOptions}
NO_OPTIONS = {"self", "name", "query"}
EACH = [(verb, one) for verb in OptionVerb for one in options_of(verb)]
NAMES = [f"{verb.value}-{one.name}" for verb, one in EACH]


def names_of(verb: OptionVerb) -> list[str]:
    return [one.name for one in options_of(verb)]


def parts(annotation: Any) -> set[Any]:
    """Return the types and words of a union, however deep."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    inner = get_args(annotation)
    return {annotation} if not inner else {part for one in inner for part in parts(one)}


def check_annotation(annotation: Any, option: Option, verb: OptionVerb) -> None:
    """Compare a type of Python with an option: its type, its words, whether it may be None."""
    found = parts(annotation)
    plain = {one for one in found if isinstance(one, type) and not issubclass(one, Enum)}
    words = {one.casefold() for one in found if isinstance(one, str)}
    resets = {option.reset} - {""} if verb is ALTER or option.name == "sink" else set()
    if option.choices:
        assert words == {one.casefold() for one in option.words(verb)}
    else:
        assert words >= resets
        assert words <= resets | {"ducklake"}
    assert plain - {type(None)} == {option.kind}
    assert (type(None) in plain) is (verb is ALTER or not option.stated)


@pytest.mark.parametrize("verb", OptionVerb)
def test_python_takes_the_options_in_order(verb: OptionVerb):
    given = inspect.signature(METHODS[verb]).parameters

    assert [name for name in given if name not in NO_OPTIONS] == names_of(verb)


@pytest.mark.parametrize(("verb", "option"), EACH, ids=NAMES)
def test_python_has_the_type_the_default_and_the_meaning_of_an_option(
    verb: OptionVerb, option: Option
):
    method = METHODS[verb]
    parameter = inspect.signature(method).parameters[option.name]
    default = parameter.default.value if isinstance(parameter.default, Enum) else parameter.default
    told = " ".join((method.__doc__ or "").split())

    assert default == (option.word if verb is CREATE else None)
    check_annotation(typing.get_type_hints(method)[option.name], option, verb)
    assert f"- ``{option.name}``: {option.help(verb)}" in told


@pytest.mark.parametrize(("verb", "option"), EACH, ids=NAMES)
def test_keywords_have_the_type_of_an_option(verb: OptionVerb, option: Option):
    check_annotation(typing.get_type_hints(TYPED[verb])[option.name], option, verb)


def test_keywords_are_the_options():
    assert list(typing.get_type_hints(CreateOptions)) == names_of(CREATE)
    assert list(typing.get_type_hints(AlterOptions)) == names_of(ALTER)
    assert set(typing.get_type_hints(Definition)) == {"name", "query", *names_of(CREATE)}
    assert set(typing.get_type_hints(AlterWords)) == {"query", *names_of(ALTER)}


@pytest.mark.parametrize(
    ("method", "taken"),
    [
        (Trickle.create_or_replace_stream_table, "Unpack[CreateOptions]"),
        (Trickle.create_stream_table_if_not_exists, "Unpack[CreateOptions]"),
        (Trickle.bulk_create, "Iterable[Definition]"),
        (Trickle.bulk_alter_stream_tables, "Unpack[AlterWords]"),
    ],
)
def test_every_verb_like_them_takes_the_same_keywords(method: Callable[..., Any], taken: str):
    assert taken in {one.annotation for one in inspect.signature(method).parameters.values()}


def test_type_checkers_find_a_word_that_does_not_exist(tmp_path: Path):
    program = tmp_path / "wrong.py"
    program.write_text(
        "from pgtrickle import Trickle\n"
        "def f(trickle: Trickle) -> None:\n"
        "    trickle.create_or_replace_stream_table('a', 'SELECT 1', schedule='5m')\n"
        "    trickle.create_or_replace_stream_table('a', 'SELECT 1', shedule='5m')\n"
        "    trickle.alter_stream_table('a', fuse_ceiling='many')\n"
        "    trickle.bulk_create([{'name': 'a', 'query': 'SELECT 1', 'tire': 'hot'}])\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", str(program)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout

    lines = {int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line}
    assert lines == {4, 5, 6}, found


def flags_of(verb: OptionVerb) -> dict[str, Any]:
    root: Any = get_command(app)
    return {one.name: one for one in root.commands[verb.value].params}


@pytest.mark.parametrize("verb", OptionVerb)
def test_shell_takes_the_options_in_order(verb: OptionVerb):
    assert [name for name in flags_of(verb) if name in OPTIONS] == names_of(verb)


@pytest.mark.parametrize(("verb", "option"), EACH, ids=NAMES)
def test_shell_has_the_words_the_default_and_the_meaning_of_an_option(
    verb: OptionVerb, option: Option
):
    flag = flags_of(verb)[option.name]
    default = flag.default.value if isinstance(flag.default, Enum) else flag.default
    kind = flag.type_descriptor.annotation
    choices = [one.value for one in kind] if issubclass(kind, Enum) else []

    assert flag.opts == [f"--{option.name.replace('_', '-')}"]
    assert flag.help == option.help(verb)
    assert default == (option.word if verb is CREATE else None)
    assert choices == list(option.words(verb))


def test_requests_take_the_options():
    assert VERBS["alter_stream_table"].optional == ("query", *names_of(ALTER))
    for name in ("", "_if_not_exists"):
        assert VERBS[f"create_stream_table{name}"].optional == tuple(names_of(CREATE))
    assert VERBS["create_or_replace_stream_table"].optional == tuple(names_of(CREATE))


@pytest.mark.parametrize("option", OPTIONS.values(), ids=OPTIONS)
def test_no_word_gives_the_default(option: Option):
    assert read_options({}).value(option.name) == option.default
    assert option.name not in Changes.read({option.name: None})


@pytest.mark.parametrize("option", [one for one in OPTIONS.values() if one.reset])
def test_word_that_brings_the_default_back_is_given_all_the_same(option: Option):
    changes = Changes.read({option.name: option.reset})

    assert option.name in changes
    assert changes.options.value(option.name) == option.default


def test_every_word_becomes_a_value_that_differs_from_the_default(tmp_path: Path):
    for verb in OptionVerb:
        changes = Changes.read(words(verb, tmp_path))
        assert changes.differing_from(StreamTableOptions()) == changes


def test_stated_words_are_those_of_the_defaults():
    assert Changes.read(stated_words()).options == StreamTableOptions()


def test_one_option_of_a_sink_that_differs_brings_the_others_along():
    current = read_options({"sink": "ducklake", "ducklake_partition_by": "a"})
    same = Changes.read({"sink": "ducklake", "ducklake_partition_by": "a"})
    other = Changes.read({"sink": "ducklake", "ducklake_partition_by": "b", "tier": "hot"})

    assert not same.differing_from(current)
    assert other.differing_from(current).given == {"sink", "ducklake_partition_by"}


@pytest.mark.parametrize("name", sorted(SINK_OPTIONS - {"sink"}))
def test_option_of_a_sink_without_a_sink_is_refused(name: str):
    with pytest.raises(SettingError, match=name) as caught:
        Changes.read({name: "x"})

    assert "ducklake" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "word"),
    [("initialize", "yes"), ("fuse_ceiling", 1.5), ("fuse_sensitivity", "much"), ("sink", 7)],
)
def test_word_of_another_type_is_refused(name: str, word: object):
    with pytest.raises(SettingError):
        Changes.read({name: word})


def test_help_of_the_shell_imports_nothing_heavy():
    code = (
        "import sys; from typer.main import get_command; from pgtrickle.cli.main import app;"
        "[get_command(app).commands[one] for one in ('create', 'alter')];"
        "print(sorted({'pyspark', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
