"""The engine port on DuckDB: the same stages as on Spark, in this process and in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.ports import PartT, ResultT
from pgtrickle.sql.translate import Dialect

# A function of PostgreSQL's; the digits of a decimal are those of its type here.
_SCALE = "CREATE MACRO scale(x) AS length(split_part(x::VARCHAR, '.', 2))::INTEGER"
# Planning costs more than running on a handful of rows, and optimizing is most of planning.
_FAST_PLANNING = "PRAGMA disable_optimizer"


def connect(memory: str | None = None) -> duckdb.DuckDBPyConnection:
    """Open a DuckDB that answers many small queries quickly; beyond ``memory`` it fails."""
    bound = {} if memory is None else {"memory_limit": memory, "temp_directory": ""}
    connection = duckdb.connect(config={"threads": 1, **bound})
    connection.execute(_FAST_PLANNING)
    return connection


class NoEngine:
    """An engine that nobody may ask to compute: PostgreSQL does it all."""

    dialect = Dialect.SPARK
    distributed = True
    cold_runs = 0
    start_ms = 0.0
    counts = None

    def run(self, sql: str, inputs: Mapping[str, pa.Table]) -> pa.Table:
        raise AssertionError(f"the engine was asked for {sql}")

    def stage(
        self, sql: str, inputs: Mapping[str, Any], target: QualifiedName, parts: QualifiedName
    ) -> None:
        raise AssertionError(f"the engine was asked for {sql}")

    def spread(
        self, task: Callable[[str, PartT], ResultT], parts: Sequence[PartT]
    ) -> list[ResultT]:
        raise AssertionError("the engine was asked to spread work")

    def cancel(self, job: str) -> None:
        """Nothing runs here."""

    def list_work(self, job: str) -> tuple[()]:
        return ()

    def measure(self) -> None:
        """Nothing is known here."""

    def note_progress(self, job: str) -> None:
        """Nothing is watched here."""

    def kill(self) -> None:
        """Nothing runs here."""

    def close(self) -> None:
        """Nothing is held here."""


class DuckDbEngine:
    """Computes stages in DuckDB.

    Sums come back as ``decimal128``: DuckDB adds integers up in 128 bits, which Arrow carries as
    ``decimal128(38, 0)``, so every digit reaches a ``numeric`` column.
    """

    dialect = Dialect.DUCKDB
    distributed = False
    cold_runs = 0
    start_ms = 0.0
    counts = None

    def __init__(self, memory: str | None = None) -> None:
        self._connection = connect(memory)
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

    def list_work(self, job: str) -> tuple[()]:
        return ()

    def measure(self) -> None:
        """Nothing is known here."""

    def note_progress(self, job: str) -> None:
        """Nothing is watched here."""

    def kill(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        """Release what the engine holds."""
        self._connection.close()
