"""Fills the TPC-H tables with the standard's own data, made by ``tpchgen-cli``."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
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
    tables: Sequence[str] = TABLES,
    progress: Progress | None = None,
) -> None:
    """Copy the data of a scale factor into the tables; the same rows in every run.

    The rows go through files, about 1.1 GB at scale factor 1: memory does not limit the scale.
    """
    if not tables:
        return
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    with tempfile.TemporaryDirectory() as directory:
        generate = [str(program), "csv", "--scale-factor", str(scale), "--tables", ",".join(tables)]
        subprocess.run([*generate, "--output-dir", directory, "--quiet"], check=True)
        for table in tables:
            rows = Path(directory) / f"{table}.csv"
            _copy(connection, table, rows, progress)
            rows.unlink()


def _copy(
    connection: Connection[TupleRow], table: str, rows: Path, progress: Progress | None
) -> None:
    command = f"COPY {table} FROM STDIN (FORMAT csv, HEADER match)"
    copied = 0
    with (
        rows.open("rb") as file,
        connection.cursor() as cursor,
        cursor.copy(command.encode()) as copy,
    ):
        while block := file.read(_BLOCK):
            copy.write(block)
            copied += len(block)
            if progress is not None:
                progress(table, copied)
