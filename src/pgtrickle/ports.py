"""The protocols between the logic of a refresh and its engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:  # commands that only read the catalog need neither Arrow nor the compiler
    import pyarrow as pa

    from pgtrickle.model.insight.engine_figures import EngineCounts, SparkFigures
    from pgtrickle.model.insight.rehearsal import SparkStageFigures
    from pgtrickle.model.text.names import QualifiedName
    from pgtrickle.sql.translate import Dialect

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

# The refresh that this thread works on, to show or cancel the engine's work.
current_job: ContextVar[str | None] = ContextVar("current_job", default=None)


@contextmanager
def job_named(name: str) -> Iterator[None]:
    """Name the refresh of this thread for the engine, for the duration of a block."""
    before = current_job.set(name)
    try:
        yield
    finally:
        current_job.reset(before)


class ResultTooLargeError(Exception):
    """The result of a stage is too large to be returned; ``Engine.stage`` may write it."""


class Engine(Protocol):
    """Computes one stage: named relations in, weighted rows out."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the SQL that ``run`` understands."""
        ...

    @property
    def distributed(self) -> bool:
        """Whether ``stage`` and ``spread`` work: many processes read and write themselves."""
        ...

    @property
    def cold_runs(self) -> int:
        """The number of computations that took longer because the engine had just started."""
        ...

    @property
    def start_ms(self) -> float:
        """The time that the next computation takes to start the engine; 0 while it runs."""
        ...

    @property
    def counts(self) -> EngineCounts | None:
        """What this process has asked of the engine, if it counts; does not wait."""
        ...

    def run(self, sql: str, inputs: Mapping[str, pa.Table]) -> pa.Table:
        """Evaluate ``sql`` over small relations of the given names.

        Raises ResultTooLargeError if the result is not small.
        """
        ...

    def stage(
        self, sql: str, inputs: Mapping[str, Any], target: QualifiedName, parts: QualifiedName
    ) -> None:
        """Evaluate ``sql`` and write the result into a table, without the driver.

        An input is an Arrow table or the engine's description of a read.
        Written rows are counted in the table ``parts``, under the name ``staged``.
        """
        ...

    def spread(
        self, task: Callable[[str, PartT], ResultT], parts: Sequence[PartT]
    ) -> list[ResultT]:
        """Call ``task`` with the address of the database and each part, many at a time.

        It is called in other processes, and again if one of them was lost; for each part, one
        result is returned, in the order of the parts.
        """
        ...

    def cancel(self, job: str) -> None:
        """Cancel the present computation of a refresh (see ``job_named``); any thread may.

        It does not stop the refresh between two computations.
        """
        ...

    def list_work(self, job: str) -> Sequence[SparkStageFigures]:
        """Return the latest stages that the engine ran for a refresh, if it counts them."""
        ...

    def measure(self) -> SparkFigures | None:
        """Return what the running engine knows of itself; None if it does not run or tell.

        Never starts it, and may wait for its answer as long as it hangs.
        """
        ...

    def note_progress(self, job: str) -> None:
        """Record that rows of a refresh have moved, which the engine may not see itself."""
        ...

    def kill(self) -> None:
        """End all computations at once; the next call starts the engine again."""
        ...

    def close(self) -> None:
        """Release the engine's resources."""
        ...
