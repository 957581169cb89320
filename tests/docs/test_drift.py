"""Docs and docstrings name files, verbs and commands that exist, and the defaults of settings."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import pgtrickle
from pgtrickle import Trickle
from pgtrickle.catalog.migrate import list_api_files, list_migrations
from pgtrickle.cli.main import app
from pgtrickle.model.version import VERSION
from pgtrickle.settings import SESSION_SETTINGS, Settings
from tools.surface_reference import SUBJECTS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")))
MODULES = sorted(
    path
    for folder in ("src", "tests", "tools", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
DEFAULTS: dict[str, object] = {
    **{one.name: one.default for one in fields(Settings)},
    **{name: default for name, (default, *_) in SESSION_SETTINGS.items()},
}
# Those of stream tables belong to the projects of users.
_OF_USERS = r"(?!(?:shop/)?(?:stream_tables/\w+|sources)\.sql)"
_FILE = re.compile(rf"(?<![\w/.<>-]){_OF_USERS}((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|sql))\b")
_DECISION = re.compile(r"docs/adr/(\d{4})")
_HOMES = (ROOT / "src" / "pgtrickle", ROOT / "src", ROOT)

_NAME = rf"`(?:PGTRICKLE_|pg_trickle\.)?({'|'.join(DEFAULTS)})`"
_UNIT = r"(?: (?:ms|s|MB|GB|seconds|minutes|hours|days))?"
_VALUE = rf"(-?\d[\d,.]*\d{_UNIT}|\d{_UNIT}|on|off|a day)\b"
_AFTER = re.compile(rf"{_NAME}(?:(?: \w+){{0,2}} \(|, ){_VALUE}", re.IGNORECASE)
_BEFORE = re.compile(rf"\b{_VALUE}(?: or more)? \({_NAME}\)", re.IGNORECASE)
_FACTORS = {
    "ms": 0.001,
    "seconds": 1,
    "s": 1,
    "minutes": 60,
    "hours": 3600,
    "days": 86400,
    "mb": 2**20,
    "gb": 2**30,
}
_OWN_UNITS = {"_ms": 0.001, "_seconds": 1, "_days": 86400, "_bytes": 1, "_mb": 2**20}


def _docstrings(path: Path) -> str:
    found = (
        ast.get_docstring(node) or ""
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return "\n\n".join(found).replace("``", "`")


@cache
def _texts() -> dict[str, str]:
    """Return what pages and docstrings say, by the place where it stands."""
    said = {page: page.read_text() for page in PAGES}
    said |= {module: _docstrings(module) for module in MODULES}
    return {path.relative_to(ROOT).as_posix(): text for path, text in said.items()}


@pytest.mark.parametrize(
    "folder", sorted({one.relative_to(ROOT).parts[0] for one in MODULES + PAGES})
)
def test_named_files_exist(folder: str) -> None:
    missing = {
        (place, name)
        for place, text in _texts().items()
        if place.partition("/")[0] == folder
        for name in _FILE.findall(text)
        if not any((home / name).exists() for home in (*_HOMES, (ROOT / place).parent))
    }

    assert missing == set()


def test_named_decisions_exist() -> None:
    there = {path.name[:4] for path in (ROOT / "docs" / "adr").glob("*.md")}
    named = {(place, n) for place, text in _texts().items() for n in _DECISION.findall(text)}

    assert named
    assert {(place, number) for place, number in named if number not in there} == set()


def _said(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings that a text names together with a value.

    >>> list(_said("after `shutdown_seconds` (30); 32 MB or more (`PGTRICKLE_LARGE_READ_BYTES`)"))
    [('shutdown_seconds', '30'), ('large_read_bytes', '32 MB')]
    """
    plain = " ".join(text.split())
    yield from ((name.lower(), value) for name, value in _AFTER.findall(plain))
    yield from ((name.lower(), value) for value, name in _BEFORE.findall(plain))


def _is_default(name: str, value: str) -> bool:
    """Tell whether a text gives the value that a setting has.

    >>> _is_default("large_read_bytes", "32 MB"), _is_default("shutdown_seconds", "31")
    (True, False)
    """
    default = DEFAULTS[name]
    if value in {"on", "off"}:
        return default in (value == "on", value)
    number, _, unit = value.replace("a day", "1 days").replace(",", "").partition(" ")
    own = next((factor for end, factor in _OWN_UNITS.items() if name.endswith(end)), 1)
    factor = _FACTORS[unit.lower()] if unit else own
    return float(number) * factor == pytest.approx(float(str(default)) * own)


def test_values_of_settings_are_their_defaults() -> None:
    said = [(place, *one) for place, text in _texts().items() for one in _said(text)]

    assert len(said) >= 20, "the pages say it in other words by now: adapt the patterns"
    assert [one for one in said if not _is_default(*one[1:])] == []


def test_version_is_stated_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (project["dynamic"], "version" in project) == (["version"], False)

    texts = {one: one.read_text() for one in (*MODULES, ROOT / "pyproject.toml", ROOT / "Makefile")}
    stated = {one.relative_to(ROOT).as_posix() for one, text in texts.items() if VERSION in text}
    since = {one for one in stated if one.startswith("src/pgtrickle/options/")}  # it came with
    assert stated - since == {"src/pgtrickle/model/version.py"}


_BARE = re.compile(r"(?<![\w/.<>*{}-])([a-z_0-9]+\.py)\b")
_OBJECT = re.compile(r'(?<![\w"./-])pgtrickle\.([a-z_]\w*)')
_VERB = re.compile(r"(?<![\w.])trickle\.((?:\w+\.)?\w+)\(")
_COMMAND = re.compile(r"(?:^|[\s/])pgtrickle ((?:[a-z-]+ ?)+)")
_FLAG = re.compile(r"(?<=\s)(--[a-z][a-z-]*)")


def test_files_named_without_their_folder_exist() -> None:
    there = {path.name for path in MODULES}
    named = {(place, name) for place, text in _texts().items() for name in _BARE.findall(text)}

    assert named
    assert {(place, name) for place, name in named if name not in there} == set()


def test_named_objects_of_the_schema_and_the_package_exist() -> None:
    applied = [*(one.sql for one in list_migrations()), *(one.sql for one in list_api_files())]
    modules = {path.stem for path in (ROOT / "src" / "pgtrickle").iterdir()}
    there = {
        *_OBJECT.findall("\n".join(applied)),
        *dir(pgtrickle),
        *modules,
        "output",  # a plugin of WAL
        "yml",  # the file of a project
    }

    named = {(place, name) for place, text in _texts().items() for name in _OBJECT.findall(text)}

    assert {(place, name) for place, name in named if name not in there} == set()


def test_named_verbs_of_python_exist() -> None:
    named = {(place, name) for place, text in _texts().items() for name in _VERB.findall(text)}

    assert len(named) > 10
    assert {(place, name) for place, name in named if not _is_verb(name)} == set()


def _is_verb(name: str) -> bool:
    *subject, verb = name.split(".")
    return hasattr(SUBJECTS[subject[0]] if subject else Trickle, verb)


def _lines_of_shell(text: str) -> Iterator[str]:
    """Yield the commands of a page: what is between backticks, and the lines of blocks."""
    yield from re.findall(r"`([^`\n]+)`", text)
    for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
        yield from block.replace("\\\n", " ").splitlines()


def test_named_commands_and_their_options_exist() -> None:
    root: Any = get_command(app)
    unknown, flags = set(), 0
    for page in PAGES:
        for line in _lines_of_shell(page.read_text()):
            found = _COMMAND.search(line.split("#")[0])
            command = _command(root, found[1].split()) if found else None
            if command is not None:
                known = {flag for one in (*root.params, *command.params) for flag in _flags(one)}
                given = set(_FLAG.findall(line.split("#")[0]))
                flags += len(given)
                unknown |= {(page.name, line, flag) for flag in given - known - {"--help"}}

    assert flags > 20
    assert unknown == set()


def _command(root: Any, words: list[str]) -> Any:
    """Return the command that these words begin with; None: it is prose, or a group of commands."""
    found = root
    for word in words:
        commands = getattr(found, "commands", None)
        if commands is None:
            break
        if word not in commands:
            return None
        found = commands[word]
    return None if hasattr(found, "commands") else found


def _flags(parameter: Any) -> list[str]:
    return [*getattr(parameter, "opts", ()), *getattr(parameter, "secondary_opts", ())]


def test_no_folder_of_the_package_holds_more_modules_than_a_reader_can_look_through() -> None:
    folders = {path.parent for path in MODULES if (ROOT / "src") in path.parents}
    sizes = {
        folder.relative_to(ROOT / "src").as_posix(): len(
            [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        )
        for folder in folders
    }

    assert {folder: size for folder, size in sizes.items() if size > 15} == {}
