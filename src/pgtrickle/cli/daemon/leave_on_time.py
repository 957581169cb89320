"""End ``pgtrickle run`` within its time after a signal, whatever hangs.

A call of Spark or a connection to PostgreSQL may never return, and the thread that waits for it
cannot be interrupted.  So a thread of its own counts the time from the first signal: it cancels
what is under way, then ends Spark, which frees whoever waits for it, and at last the process.  What
that leaves to others runs out by itself: leases, the lead, transactions that were not committed.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

LEFT_BEHIND = 124  # the exit code, as of timeout(1)

_CANCEL_AFTER, _KILL_AFTER = 0.5, 0.75  # shares of the time
_KILLED_WITHIN = 3.0  # seconds


@dataclass(slots=True)
class Leaving:
    """How long the process may take to end after a signal, and what can be ended by force."""

    seconds: float
    cancel: Callable[[], object] = lambda: None  # refreshes in progress
    kill: Callable[[], object] = lambda: None  # the engine

    def count_down(self) -> None:
        """Do one after the other; never returns."""
        began = time.monotonic()
        for share, act in ((_CANCEL_AFTER, self.cancel), (_KILL_AFTER, self.kill)):
            time.sleep(max(began + share * self.seconds - time.monotonic(), 0.0))
            _apart(act)
        time.sleep(max(began + self.seconds - time.monotonic(), 0.0))
        _apart(self.kill).join(_KILLED_WITHIN)
        with suppress(OSError, ValueError):  # nobody may read it any more
            print(f"not ended after {self.seconds:g} s: left what hangs", file=sys.stderr)
            sys.stderr.flush()
        os._exit(LEFT_BEHIND)


@contextmanager
def leaving_on_time(seconds: float) -> Iterator[Leaving]:
    """Count from the first SIGINT or SIGTERM within the block on, also beyond its end.

    The signals are heard of through a socket, since handlers run in the main thread, which may be
    the one that hangs.
    """
    leaving = Leaving(seconds)
    hear, tell = socket.socketpair()
    tell.setblocking(False)  # as signals demand
    before = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)

    def listen() -> None:
        with hear:
            while heard := hear.recv(64):
                if {signal.SIGINT, signal.SIGTERM} & set(heard):
                    leaving.count_down()

    thread = threading.Thread(target=listen, name="pgtrickle-leave", daemon=True)
    thread.start()
    try:
        yield leaving
    finally:
        signal.set_wakeup_fd(before)
        tell.close()


def _apart(act: Callable[[], object]) -> threading.Thread:
    """Do something that may hang or fail in a thread of its own."""

    def work() -> None:
        with suppress(Exception):  # the process ends anyway
            act()

    thread = threading.Thread(target=work, name="pgtrickle-end", daemon=True)
    thread.start()
    return thread
