"""Spark computes with what the passing of time has moved."""

from __future__ import annotations

from datetime import timedelta

from tests.labs.lab import Lab
from tests.labs.time_lab import QUERIES, simulated

_SAMPLE = ("grouped", "join of both", "exists", "filtered", "window")


def test_spark_follows_the_time(lab: Lab) -> None:
    with simulated(lab) as time_lab:
        for number, name in enumerate(_SAMPLE):
            time_lab.create(f"s{number}", QUERIES[name])
        for number, step in enumerate((timedelta(hours=9), timedelta(days=2))):
            lab.run(
                f"UPDATE t SET at = at + interval '30 hours' WHERE id % 4 = {number}",
                f"DELETE FROM t WHERE id % 9 = {number}",
            )
            time_lab.at(step)
            for name in lab.queries:
                time_lab.refresh(name)
