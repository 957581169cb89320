"""Graphs whose paths are followed by stream tables that read one another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.labs.lab import Lab

EDGES = "CREATE TABLE edge (src int, dst int)"
FEW = "INSERT INTO edge VALUES (1, 2), (2, 3), (3, 4), (4, 2), (5, 1), (6, 7)"


@contextmanager
def with_settings(lab: Lab, **values: Any) -> Iterator[None]:
    """Let pgtrickle have other settings for the length of a block."""
    runtime = lab.trickle._runtime
    before = runtime.settings
    runtime.settings = replace(before, **values)
    try:
        yield
    finally:
        runtime.settings = before


def walk(number: int, length: int) -> str:
    """Return the query of walks whose length leaves a rest of ``number``, but for length 1."""
    return (
        f"SELECT DISTINCT w.src, e.dst FROM walk_{(number - 1) % length} AS w"
        " JOIN edge AS e ON e.src = w.dst"
    )


def close(lab: Lab, length: int, **settings: Any) -> None:
    """Create stream tables of walks by the rest of their length, and close their circle."""
    one = 1 % length
    lab.trickle.create_stream_table(f"walk_{one}", "SELECT DISTINCT src, dst FROM edge")
    for number in [*range(2, length), *([0] if length > 1 else [])]:
        lab.trickle.create_stream_table(f"walk_{number}", walk(number, length))
    with with_settings(lab, **{"allow_circular": True, **settings}):
        lab.trickle.alter_stream_table(
            f"walk_{one}", query=f"SELECT src, dst FROM edge UNION {walk(one, length)}"
        )


def answer(number: int, length: int) -> str:
    """Return PostgreSQL's own recursion for the same walks."""
    return (
        f"WITH RECURSIVE walks (src, dst, rest) AS (SELECT src, dst, {1 % length} FROM edge UNION"
        f" SELECT w.src, e.dst, (w.rest + 1) % {length} FROM walks AS w"
        " JOIN edge AS e ON e.src = w.dst)"
        f" SELECT src, dst FROM walks WHERE rest = {number}"
    )


def check(lab: Lab, length: int) -> None:
    """Compare every member with PostgreSQL's answer, and see that all show one moment."""
    for number in range(length):
        assert lab.rows(f"TABLE walk_{number}") == lab.rows(answer(number, length)), number
    moments = lab.value(
        "SELECT count(DISTINCT frontier #>> '{pg,snapshot}') FROM pgtrickle.pgt_stream_tables"
        " WHERE scc_id IS NOT NULL"
    )
    assert moments == 1
