"""The protocols between the logic of a refresh and what carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa

from pgtrickle.model.names import QualifiedName
from pgtrickle.sql.translate import Dialect


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
        """Whether ``stage`` works: many processes read sources and write results themselves."""
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

    def close(self) -> None:
        """Release what the engine holds."""
        ...
