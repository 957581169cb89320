"""The engine port on DuckDB: the same stages as on Spark, in this process and in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from pgtrickle.model.names import QualifiedName
from pgtrickle.ports import PartT, ResultT
from pgtrickle.sql.translate import Dialect

# A function of PostgreSQL's; the digits of a decimal are those of its type here.
_SCALE = "CREATE MACRO scale(x) AS length(split_part(x::VARCHAR, '.', 2))::INTEGER"
# Planning costs more than running on a handful of rows, and optimizing is most of planning.
_FAST_PLANNING = "PRAGMA disable_optimizer"


def connect() -> duckdb.DuckDBPyConnection:
    """Open a DuckDB that answers many small queries quickly."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(_FAST_PLANNING)
    return connection


class DuckDbEngine:
    """Computes stages in DuckDB.

    Sums come back as ``decimal128``: DuckDB adds integers up in 128 bits, which Arrow carries as
    ``decimal128(38, 0)``, so every digit reaches a ``numeric`` column.
    """

    dialect = Dialect.DUCKDB
    distributed = False

    def __init__(self) -> None:
        self._connection = connect()
        self._connection.execute(_SCALE)

    def run(self, sql: str, inputs: Mapping[str, pa.Table]) -> pa.Table:
        """Evaluate ``sql`` over relations of the given names."""
        try:
            for name, table in inputs.items():
                self._connection.register(name, table)
            return self._connection.execute(sql).to_arrow_table()
        finally:
            for name in inputs:
                self._connection.unregister(name)

    def stage(
        self, sql: str, inputs: Mapping[str, Any], target: QualifiedName, parts: QualifiedName
    ) -> None:
        """Never asked: the engine is not distributed."""
        raise NotImplementedError

    def spread(
        self, task: Callable[[str, PartT], ResultT], parts: Sequence[PartT]
    ) -> list[ResultT]:
        """Never asked: the engine is not distributed."""
        raise NotImplementedError

    def cancel(self, job: str) -> None:
        self._connection.interrupt()

    def note_progress(self, job: str) -> None:
        """Nothing is watched here."""

    def kill(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        """Release what the engine holds."""
        self._connection.close()
