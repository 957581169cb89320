"""docs/errors.md: each error has a cause, a remedy and an example, whose message exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgtrickle
from pgtrickle.errors import TrickleError
from pgtrickle.model.remedies import REMEDIES
from tests.labs.lab import Lab
from tools.error_examples import EXAMPLES

ROOT = Path(pgtrickle.__file__).parent
PAGE = ROOT.parents[1] / "docs" / "errors.md"
# The words of PostgreSQL, or of the object that the message is about.
WORDS_OF_OTHERS = {"ST101", "ST105", "ST107", "ST207"}
_RUN = 3  # words in a row that a message shares with the package
RUNNABLE = {
    "ST101": "SELEC 1",
    "ST103": "SELECT random() AS r FROM t",
    "ST104": "SELECT oid FROM pg_class",
    "ST105": "SELECT * FROM ordres",
    "ST107": "SELECT id, count(*) FROM t",
}


def literals(path: Path) -> Iterator[str]:
    """Yield the fixed parts of every text in a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.fixture(scope="module")
def said() -> str:
    """All texts of the package."""
    modules = sorted(ROOT.rglob("*.py"))
    statements = [path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.sql"))]
    texts = [text for path in modules for text in literals(path)]
    return " ".join("\n".join([*texts, *statements]).split())


def fixed_parts(message: str) -> list[str]:
    """Return what a message says without names, numbers and what follows a colon."""
    bare = re.sub(r'"[^"]*"|\b\d[\d.,:]*\b|\([^)]*\)', "\n", message.split(": ", maxsplit=1)[0])
    return [part.strip(" ,:") for part in bare.split("\n") if len(part.split()) > 1]


def test_each_error_has_cause_remedy_and_example() -> None:
    codes = sorted(TrickleError.registry)

    assert sorted(EXAMPLES) == codes, "give each error an example in tools/error_examples.toml"
    assert sorted(REMEDIES) == codes
    for code, example in EXAMPLES.items():
        assert all(len(part) > 8 for part in example), code
        assert example.cause.endswith("."), code
    causes = [example.cause for example in EXAMPLES.values()]
    assert len(set(causes)) == len(causes)
    page = PAGE.read_text(encoding="utf-8")
    for code in codes:
        [entry] = re.findall(rf"### {code}: .*?\n```\n", page, re.DOTALL)
        assert "**Cause.** " in entry
        assert "**Remedy.** " in entry
        assert f"error {code}: {EXAMPLES[code].says}" in entry


@pytest.mark.parametrize("code", sorted(set(EXAMPLES) - WORDS_OF_OTHERS))
def test_the_words_of_the_message_are_those_of_the_package(code: str, said: str) -> None:
    parts = fixed_parts(EXAMPLES[code].says)

    assert parts, "name more than what changes from case to case"
    assert any(run in said for part in parts for run in runs(part)), parts


def runs(part: str) -> list[str]:
    """Return the words of a part, three in a row: names and numbers of a case may stand between."""
    words = part.split()
    last = max(len(words) - _RUN, 0)
    return [" ".join(words[place : place + _RUN]) for place in range(last + 1)]


@pytest.mark.parametrize("code", RUNNABLE)
def test_the_example_brings_the_error_about(lab: Lab, code: str) -> None:
    lab.run("CREATE TABLE t (id int, x int)")
    example = EXAMPLES[code]
    assert RUNNABLE[code] in example.does

    with pytest.raises(TrickleError) as caught:
        lab.trickle.create_stream_table("s", RUNNABLE[code], refresh_mode="DIFFERENTIAL")

    assert caught.value.code == code
    assert example.says in f"{caught.value}\n{caught.value.detail}"
