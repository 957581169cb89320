"""The examples in the benchmarks' docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

_MODULES = (
    "benchmarks.cells",
    "benchmarks.check",
    "benchmarks.ratios",
    "benchmarks.report.markdown",
    "benchmarks.report.svg",
    "benchmarks.results",
    "benchmarks.tpch.database",
)


@pytest.mark.parametrize("module", _MODULES)
def test_examples(module: str):
    found = doctest.testmod(importlib.import_module(module))

    assert found.attempted > 0
    assert found.failed == 0
