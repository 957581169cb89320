"""The same refreshes on a standalone cluster and through Spark Connect as on ``local[*]``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest


def _run(dsn: str, **environment: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.end_to_end.on_a_cluster", dsn],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def _check(report: Any) -> None:
    assert report["verified"]
    assert report["files"] == 4
    assert report["first"]["action"] == "FULL"
    assert report["first"]["read by executors"] == {"public.orders full": 6000}
    assert report["small"] == {"action": "DIFFERENTIAL", "read by executors": {}}
    assert report["large"]["action"] == "DIFFERENTIAL"
    assert report["large"]["read by executors"]["public.orders changes"] == 12_000
    for lost in ("without executors", "without a session"):
        assert report[lost]["action"] == "DIFFERENTIAL"


def test_on_a_master_with_two_workers(database: str, spark_master: str) -> None:
    report = _run(database, SPARK_MASTER=spark_master)

    _check(report)
    assert report["killed"] > 0


def test_through_spark_connect(database: str, spark_connect: str) -> None:
    pytest.importorskip("grpc", reason="the extra pgtrickle[connect] is not installed")

    _check(_run(database, SPARK_REMOTE=spark_connect))
