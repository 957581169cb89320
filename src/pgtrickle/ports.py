"""The protocols between the logic of a refresh and what carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from pgtrickle.sql.translate import Dialect


class Engine(Protocol):
    """Computes one stage: named relations in, weighted rows out."""

    @property
    def dialect(self) -> Dialect:
        """The dialect of the SQL that ``run`` understands."""
        ...

    def run(self, sql: str, inputs: Mapping[str, pa.Table], *, large: bool) -> pa.Table:
        """Evaluate ``sql`` over relations of the given names."""
        ...

    def close(self) -> None:
        """Release what the engine holds."""
        ...
