"""What files and the lake's catalog may throw, as errors with a code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from pgtrickle.errors import LakeWriteError
from pgtrickle.service.runtime import translated_errors


@contextmanager
def lake_errors() -> Iterator[None]:
    """Turn what files and the lake's catalog may throw into errors with a code."""
    try:
        with translated_errors():
            yield
    except (OSError, pa.ArrowException) as error:
        raise LakeWriteError(
            f"could not write to the lake: {error}",
            hint="See that the directory of the lake exists, is writable and has room.",
        ) from error
