"""Numerics are compared as numbers, however many decimals each side shows."""

from __future__ import annotations

import pytest

from tests.labs.lab import Lab


@pytest.mark.parametrize("word", ["LEFT", "RIGHT", "FULL", ""])
def test_a_join_compares_numbers_not_digits(lab: Lab, word: str) -> None:
    lab.run(
        "CREATE TABLE t (n numeric(10, 2))",
        "CREATE TABLE u (m numeric, d int)",
        "INSERT INTO t VALUES (1), (2), (NULL)",
        "INSERT INTO u VALUES (1.0, 1), (2.000, 2), (3, 3)",
    )
    lab.create("made", f"SELECT t.n, u.m, u.d FROM t {word} JOIN u ON t.n = u.m")

    lab.window("INSERT INTO t VALUES (3.0)", "UPDATE u SET m = 2.0 WHERE d = 1")
