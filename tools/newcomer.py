"""The path of a newcomer, with a stopwatch: from nothing to a verified incremental table.

    python -m tools.newcomer [small] [spark]

In an empty directory, with an empty home and no cache: clone, then one command.  ``small`` has no
Spark and no Java, ``spark`` has.  Prints the commands and the seconds that each took.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PATHS = {"small": "make demo-small", "spark": "make demo"}
_RIGHT = "every stream table equals PostgreSQL's own answer"
# What reaches the network, and what finds Python, make and Java.
_KEPT = ("PATH", "JAVA_HOME", "LANG", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE",
         "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy")  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Walk the paths; 1 if one does not end at a verified table."""
    wanted = list(sys.argv[1:] if argv is None else argv) or list(_PATHS)
    return max([walk(name, _PATHS[name]) for name in wanted])


def walk(name: str, command: str) -> int:
    """Walk one path and print its times."""
    environment = {one: os.environ[one] for one in _KEPT if one in os.environ}
    with tempfile.TemporaryDirectory(prefix="newcomer-") as directory:
        Path(directory).chmod(0o711)  # root's server runs as an account without rights
        home = Path(directory) / "home"
        home.mkdir(mode=0o711)
        environment |= {"HOME": str(home), "PIP_NO_CACHE_DIR": "1"}
        clone = f"git clone -q file://{ROOT} pgtrickle"
        took, told = [], ""
        for typed, where in ((clone, home), (command, home / "pgtrickle")):
            began = time.monotonic()
            done = subprocess.run(  # noqa: S603 - no shell
                typed.split(),
                cwd=where,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            took.append(time.monotonic() - began)
            told = done.stdout + done.stderr
            if done.returncode:
                sys.stdout.write(f"{typed} ended with {done.returncode}\n{told[-3000:]}\n")
                return 1
    right = _RIGHT in told
    load = os.getloadavg()[0]
    sys.stdout.write(
        f"{name}: 2 commands, {sum(took):.0f} s (clone {took[0]:.0f} s, {command} {took[1]:.0f} s),"
        f" {'verified' if right else 'NOT verified'}; load {load:.1f} on {os.cpu_count()} cores\n"
    )
    sys.stdout.flush()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
