"""``make demo-loop`` on a real Spark, which reads the lake beside DuckDB."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.fixtures.postgres import enterable_directory


def test_loop_is_read_by_spark_and_duckdb():
    command = [sys.executable, "-m", "pgtrickle", "demo", "loop", "--seconds", "4"]
    with enterable_directory() as home:
        done = subprocess.run(
            [*command, "--rows", "2000"],
            env={**os.environ, "PGTRICKLE_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
        )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-3000:]
    for who in ("DuckDB", "Spark"):
        assert re.search(rf"{who} reads [\d,]+ rows from the lake, the same as in", told), told
