"""The protocols between the logic of a refresh and what carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from pgtrickle.model.names import QualifiedName
from pgtrickle.sql.translate import Dialect

PartT = TypeVar("PartT")
ResultT = TypeVar("ResultT")

# The refresh that this thread works on, for whoever shows or cancels what the engine does.
current_job: ContextVar[str | None] = ContextVar("current_job", default=None)


@contextmanager
def job_named(name: str) -> Iterator[None]:
    """Let the engine know, for the length of a block, for which refresh this thread works."""
    before = current_job.set(name)
    try:
        yield
    finally:
        current_job.reset(before)


class ResultTooLargeError(Exception):
    """The result of a stage is too large to be handed over; ``Engine.stage`` may write it."""


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

    def run(self, sql: str, inputs: Mapping[str, pa.Table]) -> pa.Table:
        """Evaluate ``sql`` over small relations of the given names.

        Raises ResultTooLargeError where the result is not small.
        """
        ...

    def stage(
        self, sql: str, inputs: Mapping[str, Any], target: QualifiedName, parts: QualifiedName
    ) -> None:
        """Evaluate ``sql`` and write the result into a table, nothing of it through the driver.

        An input is an Arrow table or the description of a read, as the engine's adapter has it.
        What is written is counted in the table ``parts``, under the name ``staged``.
        """
        ...

    def spread(
        self, task: Callable[[str, PartT], ResultT], parts: Sequence[PartT]
    ) -> list[ResultT]:
        """Call ``task`` with the address of the database and each part, many at a time.

        It is called in other processes, and again where one of them was lost; of each part, one
        result is returned, in the order of the parts.
        """
        ...

    def cancel(self, job: str) -> None:
        """Cancel what is computed now for a refresh (see ``job_named``); any thread may.

        What the refresh does between two computations is not the engine's to stop.
        """
        ...

    def note_progress(self, job: str) -> None:
        """Take note that rows of a refresh have moved, which the engine may not see itself."""
        ...

    def kill(self) -> None:
        """End all that is computed, at once and for certain; the next call begins anew."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...
