"""Carry pgtrickle's errors from a Python worker to the driver.

Spark hands the driver a worker's failure as text only, so the worker marks an error that has a code
with a tag the driver can read back.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager

from pgtrickle.errors import TrickleError

# Base64, so that neither line breaks nor the traceback's quotation of this source can confuse it.
_TAG = re.compile(r"<<pgtrickle ([A-Za-z0-9+/=]+)>>")


@contextmanager
def tagged() -> Iterator[None]:
    """Raise a coded error of the block again in a form that survives transport."""
    try:
        yield
    except TrickleError as error:
        parts = {"c": error.code, "m": str(error), "d": error.detail, "h": error.hint}
        parts |= {"s": error.sqlstate} if error.sqlstate else {}
        coded = b64encode(json.dumps(parts).encode()).decode()
        raise RuntimeError(f"{error.code} {error} <<pgtrickle {coded}>>") from None


def find_tagged(text: str) -> TrickleError | None:
    """Return the coded error inside a worker's traceback, if there is one.

    >>> find_tagged("Traceback: KeyError") is None
    True
    """
    match = _TAG.search(text)
    if match is None:
        return None
    parts = json.loads(b64decode(match.group(1)))
    error = TrickleError.registry[parts["c"]](parts["m"], detail=parts["d"], hint=parts["h"])
    error.sqlstate = parts.get("s")
    return error
