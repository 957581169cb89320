"""Fills the TPC-H tables with the standard's own data, made by ``tpchgen-cli``."""

from __future__ import annotations

import subprocess
import sysconfig
import tempfile
from pathlib import Path

from psycopg import Connection
from psycopg.rows import TupleRow

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
_BLOCK = 2**20


def load(connection: Connection[TupleRow], scale: float) -> None:
    """Copy the data of a scale factor into the tables; the same rows in every run."""
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run(
            [program, "csv", "--scale-factor", str(scale), "--output-dir", directory, "--quiet"],
            check=True,
        )
        for table in TABLES:
            _copy(connection, table, Path(directory) / f"{table}.csv")


def _copy(connection: Connection[TupleRow], table: str, rows: Path) -> None:
    command = f"COPY {table} FROM STDIN (FORMAT csv, HEADER match)"
    with (
        rows.open("rb") as file,
        connection.cursor() as cursor,
        cursor.copy(command.encode()) as copy,
    ):
        while block := file.read(_BLOCK):
            copy.write(block)
