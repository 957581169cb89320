"""Every scenario that REFERENCE.md asks for has a test of its number, somewhere in tests/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_TESTS = Path(__file__).parents[1]
_NUMBERED = re.compile(r"^def test_p(\d+)_\w+", re.MULTILINE)
_REQUIRED = [*range(1, 40), 41, 45, *range(47, 57), 58]


def _numbers() -> set[int]:
    return {
        int(number)
        for path in _TESTS.rglob("test_*.py")
        for number in _NUMBERED.findall(path.read_text())
    }


@pytest.mark.parametrize("scenario", _REQUIRED)
def test_scenario_has_a_test(scenario: int) -> None:
    assert scenario in _numbers()
