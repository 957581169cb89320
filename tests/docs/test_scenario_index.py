"""Every scenario of docs/quality/scenarios.md has a test of its number, and the other way round."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_SCENARIOS = _TESTS.parent / "docs" / "quality" / "scenarios.md"
_NUMBERED = re.compile(r"^def test_p(\d+)_\w+", re.MULTILINE)
_LISTED = re.compile(r"^\| (\d+) \| \S", re.MULTILINE)


def _tested() -> set[int]:
    return {
        int(number)
        for path in _TESTS.rglob("test_*.py")
        for number in _NUMBERED.findall(path.read_text())
    }


def _listed() -> list[int]:
    return [int(number) for number in _LISTED.findall(_SCENARIOS.read_text())]


@pytest.mark.parametrize("scenario", _listed())
def test_scenario_has_a_test(scenario: int) -> None:
    assert scenario in _tested()


def test_numbers_of_tests_are_listed_once_and_in_order() -> None:
    assert _listed() == sorted(_tested())
