"""``make demo-ui`` runs by itself, and has something to see in every state."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_demo_of_the_consoles_has_thirty_stream_tables_in_every_state():
    command = [sys.executable, "-m", "benchmarks.console_demo", "--seconds", "12"]

    done = subprocess.run(
        [*command, "--orders", "2000", "--port", "0"],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    told = done.stdout + done.stderr
    assert done.returncode == 0, told[-3000:]
    found = re.search(r"(\d+) stream tables: (\d+) late, (\d+) failing, (\d+) held, 1 in", told)
    assert found is not None, told
    assert found[1] == "30"
    assert int(found[2]) >= 1
    assert (found[3], found[4]) == ("1", "2")
