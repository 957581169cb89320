"""``make demo-lake`` runs by itself, shows lag and equality, and ends verified."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_demo_of_the_lake_shows_lag_and_equality_and_ends_verified():
    command = [sys.executable, "-m", "benchmarks.lake_demo", "--seconds", "4", "--orders", "1000"]

    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)

    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-3000:]
    compared = re.search(
        r"(\d+) of (\d+) inserts in DuckDB at the end; (\d+) comparisons, 0 differences;"
        r" the stream table is the query's own answer",
        done.stdout,
    )
    assert compared is not None, told
    arrived, inserted, comparisons = map(int, compared.groups())
    assert arrived == inserted >= 1
    lines = re.findall(
        r"snapshot +\d+: (\d+) rows in PostgreSQL, \1 in the lake, equal; insert to DuckDB", told
    )
    assert len(lines) == comparisons >= 1
    for name in ("revenue_by_region", "pulse"):
        assert re.search(rf"{name}: \d+ deliveries", told), told
