"""Carrying our own errors from a Python worker to the driver.

Spark hands the driver a worker's failure as text only, so the worker marks an error that has a code
with a tag the driver can read back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pgtrickle.errors import TrickleError

_TAG = re.compile(r"<<pgtrickle (\{.*?\}) pgtrickle>>")


@contextmanager
def tagged() -> Iterator[None]:
    """Raise a coded error of the block again in a form that survives the way to the driver."""
    try:
        yield
    except TrickleError as error:
        # ASCII JSON holds no raw line break, so the tag stays on one line of the traceback.
        parts = {"c": error.code, "m": str(error), "d": error.detail, "h": error.hint}
        raise RuntimeError(f"<<pgtrickle {json.dumps(parts)} pgtrickle>>") from None


def find_tagged(text: str) -> TrickleError | None:
    r"""Return the coded error inside a worker's traceback, if there is one.

    >>> find_tagged('... <<pgtrickle {"c": "ST405", "m": "x", "d": "", "h": ""} pgtrickle>>')
    ValueOutOfRangeError('x')
    """
    match = _TAG.search(text)
    if match is None:
        return None
    parts = json.loads(match.group(1))
    return TrickleError.registry[parts["c"]](parts["m"], detail=parts["d"], hint=parts["h"])
