"""How commands that run until somebody ends them hear of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; a second signal acts as it always did."""
    stop = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.getsignal(number) for number in signals}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def stop_and_restore(_number: int, _frame: object) -> None:
        stop.set()
        restore()

    for number in signals:
        signal.signal(number, stop_and_restore)
    try:
        yield stop
    finally:
        restore()
