"""Keep one dbt running, and hand it command after command: its start takes longer than most.

    python runner.py    with the Python of dbt's environment

Reads a line of JSON for each command, ``{"folder": ..., "arguments": [...]}``, and answers with
one: whether dbt calls it a success, and what it printed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from dbt.cli.main import dbtRunner


def main() -> None:
    """Answer until there is no more command."""
    with os.fdopen(os.dup(1), "w") as answers, tempfile.TemporaryFile("w+b") as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        for line in sys.stdin:
            command = json.loads(line)
            printed.truncate(0)
            printed.seek(0)
            os.chdir(command["folder"])
            done = dbtRunner().invoke(command["arguments"])
            sys.stdout.flush()
            sys.stderr.flush()
            printed.seek(0)
            told = printed.read().decode() + (str(done.exception) if done.exception else "")
            answers.write(json.dumps({"success": done.success, "printed": told}) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
