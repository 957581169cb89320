"""Memory is bounded: what exceeds a limit goes another way, or is refused by a code and undone."""

from __future__ import annotations

import json
import os
import subprocess
import sys


def test_a_driver_of_half_a_gigabyte(database: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.with_little_memory", database],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    # Too large for the driver, so the executors wrote it.
    assert found["pairs"] == 160_000
    # Too large for the heap: refused, named, and nothing half applied.
    assert found["code"] == "ST409"
    assert "PGTRICKLE_SPARK_DRIVER_MEMORY" in found["hint"]
    assert (found["stored"], found["left"]) == (1, 0)
    # The next refresh starts another Spark.
    assert found["later"] == 11
