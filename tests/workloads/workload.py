"""What a workload is: tables with data, queries over them, and cycles of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.stream_table import RefreshMode

CYCLES = 10


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything a run needs; ``load`` and ``change`` do the same in every run.

    ``change`` makes the changes of one cycle, counted from 1. Each cycle builds on the one before.
    Under AUTO a query that is refused is recomputed, and the outcome tells why.
    """

    name: str
    queries: dict[str, str]
    load: Callable[[Connection[TupleRow]], None]
    change: Callable[[Connection[TupleRow], int], None]
    mode: RefreshMode = RefreshMode.DIFFERENTIAL


def read_queries(directory: Path) -> dict[str, str]:
    """Return the queries of a directory by the names of their files, in order."""
    return {path.stem: path.read_text().strip() for path in sorted(directory.glob("*.sql"))}
