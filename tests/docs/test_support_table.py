"""The support table says yes where, and only where, a strict test runs the example."""

from __future__ import annotations

import re
from pathlib import Path

from tests.queries import test_support
from tools.constructs import Construct, read_examples

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


def test_every_row_of_the_page_is_a_construct() -> None:
    rows = re.findall(r"^\| (.+?) \| (yes|no) \| ", PAGE.read_text(), re.MULTILINE)

    assert dict(rows) == {
        one.title: "yes" if one.differential else "no" for one in read_examples().constructs
    }


def test_every_yes_is_run_and_every_no_is_refused() -> None:
    run = _cases(test_support.test_what_says_yes_is_maintained_in_strict_differential_mode)
    refused = _cases(test_support.test_what_says_no_is_refused)

    assert run + refused == sorted(read_examples().constructs, key=lambda one: not one.differential)
    assert all(one.differential for one in run)


def test_titles_and_examples_are_unique() -> None:
    constructs = read_examples().constructs

    assert len({one.title for one in constructs}) == len(constructs)
    assert len({one.query for one in constructs}) == len(constructs)


def _cases(test: object) -> list[Construct]:
    [mark] = [one for one in test.pytestmark if one.name == "parametrize"]  # type: ignore[attr-defined]  # pytest's
    return list(mark.args[1])
