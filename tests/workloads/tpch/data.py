"""Fills the TPC-H tables with the standard's own data, made by ``tpchgen-cli``."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable, Iterable
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
_BLOCK = 2**20

# Called with a table and how many bytes of it have been copied.
Progress = Callable[[str, int], None]


def load(
    connection: Connection[TupleRow],
    scale: float,
    tables: Iterable[str] = TABLES,
    progress: Progress | None = None,
) -> None:
    """Copy the data of a scale factor into the tables; the same rows in every run.

    The rows go from the program straight into the server: no scale is too large for the memory.
    """
    for table in tables:
        _copy(connection, scale, table, progress)


def _copy(
    connection: Connection[TupleRow], scale: float, table: str, progress: Progress | None
) -> None:
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    generate = [str(program), "csv", "--scale-factor", str(scale), "--tables", table]
    command = f"COPY {table} FROM STDIN (FORMAT csv, HEADER match)"
    with subprocess.Popen([*generate, "--stdout", "--quiet"], stdout=subprocess.PIPE) as process:
        copied = 0
        with connection.cursor() as cursor, cursor.copy(command.encode()) as copy:
            while block := process.stdout.read(_BLOCK) if process.stdout else b"":
                copy.write(block)
                copied += len(block)
                if progress is not None:
                    progress(table, copied)
            if process.wait() != 0:  # within the copy, which then keeps nothing
                raise subprocess.CalledProcessError(process.returncode, generate)
