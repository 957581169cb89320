"""The file that a benchmark writes: what was measured, and all that is needed to measure it again.

``benchmarks.report`` draws tables and plots from it, ``benchmarks.check`` compares it with floors.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from benchmarks.machine import describe_machine

Results = dict[str, Any]

_LOCAL = ("--home", "--output", "--dsn")  # where things are on this machine
_FILES = ("--jdbc-jar", "--before")  # of a file only the name


def describe_run(
    benchmark: str, arguments: Sequence[str], connection: Connection[TupleRow], **found: object
) -> Results:
    """Return results with the benchmark's module, its command and the machine before them."""
    return {
        "benchmark": benchmark,
        "command": command_of(benchmark, arguments),
        "machine": describe_machine(connection),
        **found,
    }


def command_of(benchmark: str, arguments: Sequence[str]) -> str:
    """Return the command that measures this again.

    >>> command_of("benchmarks.tpch", ["--scale", "1", "--home", "x", "--output=a.json", "q01"])
    'python -m benchmarks.tpch --scale 1 q01'
    >>> command_of("benchmarks.command_times", ["--before", "/home/ann/earlier"])
    'python -m benchmarks.command_times --before earlier'
    """
    kept: list[str] = []
    option = ""
    for argument in arguments:
        if option in _LOCAL or argument.startswith(tuple(f"{name}=" for name in _LOCAL)):
            option = ""
            continue
        if argument not in _LOCAL:
            kept.append(Path(argument).name if option in _FILES else argument)
        option = argument
    return shlex.join(["python", "-m", benchmark, *kept])


def write_results(path: Path, results: Results) -> None:
    """Write a file of results."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")


def read_results(path: Path) -> Results:
    """Read a file of results."""
    results: Results = json.loads(path.read_text())
    return results
