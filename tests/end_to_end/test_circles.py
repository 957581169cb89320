"""A circle of stream tables beside those that Spark maintains."""

from __future__ import annotations

from tests.labs.circles import EDGES, FEW, check, close
from tests.labs.lab import Lab


def test_spark_follows_what_a_circle_changes(lab: Lab):
    lab.run(EDGES, FEW)
    close(lab, 2)
    lab.create("fans", "SELECT src, count(*) AS n FROM walk_0 GROUP BY src")
    # Reads the circle and its source: a diamond around the circle.
    lab.create("next", "SELECT w.src, e.dst FROM walk_1 AS w JOIN edge AS e ON e.src = w.dst")

    for statement in (
        "INSERT INTO edge VALUES (7, 5), (7, 6)",
        "DELETE FROM edge WHERE src = 4",
        "UPDATE edge SET dst = 6 WHERE src = 3",
    ):
        lab.run(statement)
        lab.refresh("next")
        check(lab, 2)
        lab.refresh("fans")
