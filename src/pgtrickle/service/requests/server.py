"""Execute what SQL sessions ask for (see ADR 0018).

A daemon has one server.  ``serve`` executes every request that waits, one after the other, in the
caller's thread; several threads may call it, and with ``workers`` the server has some of its own.
A thread of the server's shows that it lives, wakes the workers, stops requests whose callers took
them back, and sends notices that were held back.

Of several daemons only the one that leads takes requests on.  That is a matter of economy, since
it has Spark at work already; two that took them on would never take the same.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Self

from pgtrickle.catalog.requests import (
    Request,
    add_notice,
    beat,
    claim_request,
    complete_request,
    fail_request,
    fall_silent,
    find_work,
    list_unwanted,
    sweep_requests,
)
from pgtrickle.catalog.scheduling.subscriptions import tell_pending
from pgtrickle.errors import (
    ConnectionLostError,
    InternalError,
    RequestCancelledError,
    TrickleError,
)
from pgtrickle.service.requests.cancel import CancellableRuntime
from pgtrickle.service.requests.verbs import Ask, Notice, execute
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_PULSE_SECONDS = 0.25
_BEAT_EVERY = 4  # pulses
_SWEEP_EVERY = 40
_LOOK_EVERY = 2  # while nobody has asked for anything in a while
_ASKED_LATELY = 60.0  # seconds
_ANY_NUMBER = 1_000_000


class RequestServer:
    """Executes requests until it is closed; use it as a context manager."""

    def __init__(
        self, runtime: Runtime, *, leads: Callable[[], bool] = lambda: True, workers: int = 0
    ) -> None:
        self._runtime = runtime
        self._leads = leads
        self._running: dict[int, CancellableRuntime] = {}  # by request
        self._claiming = threading.Lock()  # what is claimed and not in the list looks abandoned
        self._draining = threading.Event()
        self._closed = threading.Event()
        self._heard = False  # callers know of this server
        self._asked_at = time.monotonic()  # when there last was something to do
        self._workers = workers
        self._pool = ThreadPoolExecutor(max(workers, 1), "pgtrickle-request")
        self._serving: list[Future[None]] = []
        self._beat()
        self._sweep()
        self._pulse = threading.Thread(target=self._live, name="pgtrickle-requests", daemon=True)
        self._pulse.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Bring to an end what was begun, and tell callers that nobody serves them any more."""
        with self._claiming:  # after this nobody is woken
            self._draining.set()
        self._pool.shutdown(wait=True)
        self._closed.set()
        self._pulse.join()
        try:
            self._fall_silent()
        except TrickleError as error:
            # Callers will notice within seconds that there is no sign of life.
            logger.warning("could not sign off", extra={"code": error.code})

    def serve(self) -> int:
        """Execute the requests that wait; return how many."""
        served = 0
        while self._leads() and not self._draining.is_set():
            runtime = CancellableRuntime.like(self._runtime)
            with self._claiming, self._runtime.connection() as connection:
                request = claim_request(connection, self._runtime.owner, share=self._share)
                if request is None:
                    break
                self._running[request.id] = runtime
            self._execute(request, runtime)
            served += 1
        return served

    @property
    def _share(self) -> int:
        """How many requests of others than its owner may be executed at a time."""
        return self._workers - 1 if self._workers > 1 else _ANY_NUMBER

    def _execute(self, request: Request, runtime: CancellableRuntime) -> None:
        try:
            try:
                result = execute(Ask(runtime, request, self._notice(request)))
                with self._runtime.connection() as connection:
                    complete_request(connection, request.id, result)
            except TrickleError as error:
                self._fail(request, error, cancelled=runtime.cancelled)
            except Exception as error:
                # A bug met by one request must not stop the others.
                logger.exception("a request failed", extra={"verb": request.verb})
                self._fail(request, _unforeseen(error), cancelled=runtime.cancelled)
        finally:
            del self._running[request.id]

    def _fail(self, request: Request, error: TrickleError, *, cancelled: bool) -> None:
        if cancelled:
            error = RequestCancelledError("the request was cancelled", hint="Make it again.")
        try:
            with self._runtime.connection() as connection:
                fail_request(connection, request.id, error, cancelled=cancelled)
        except ConnectionLostError:
            raise  # the next sweep tells that it is lost
        except TrickleError as refused:
            # The server has no room for what the error says, in its encoding say.
            logger.warning("could not record an error", extra={"code": refused.code})
            plain = type(error)("the request failed", hint="The log of the daemon has more.")
            with self._runtime.connection() as connection:
                fail_request(connection, request.id, plain)

    def _notice(self, request: Request) -> Notice:
        def tell(text: str) -> None:
            with self._runtime.connection() as connection:
                add_notice(connection, request.id, text)

        return tell

    def _live(self) -> None:
        for pulse in itertools.count():
            if self._closed.wait(_PULSE_SECONDS):
                break
            try:
                if pulse % _BEAT_EVERY == 0:
                    self._beat()
                self._stop_unwanted()
                if self._leads():
                    if pulse % _LOOK_EVERY == 0 or self._asked_lately:
                        self._look_for_work()
                    if pulse % _SWEEP_EVERY == 0:
                        self._sweep()
            except TrickleError as error:
                logger.warning("no sign of life was possible", extra={"code": error.code})
            except Exception:
                # Without this thread the daemon would look dead to every caller.
                logger.exception("the pulse of the request server met an error")

    def _beat(self) -> None:
        """Show a sign of life, or that there is none: what was begun is brought to its end."""
        if self._leads() or self._running:
            with self._runtime.connection() as connection:
                beat(connection, self._runtime.owner)
            self._heard = True
        elif self._heard:
            self._fall_silent()

    def _fall_silent(self) -> None:
        with self._runtime.connection() as connection:
            fall_silent(connection, self._runtime.owner)
        self._heard = False

    def _look_for_work(self) -> None:
        """Ask by one query, since it is asked all the time."""
        with self._runtime.connection() as connection:
            requests, notices = find_work(connection)
            if notices:
                tell_pending(connection, self._runtime.settings.notify_coalesce_ms)
        if requests or notices:
            self._asked_at = time.monotonic()
        if requests:
            self._wake_worker()

    @property
    def _asked_lately(self) -> bool:
        return time.monotonic() < self._asked_at + _ASKED_LATELY

    def _wake_worker(self) -> None:
        """Let one more worker look, if not all are busy."""
        self._serving = [one for one in self._serving if not one.done()]
        with self._claiming:
            if len(self._serving) < self._workers and not self._draining.is_set():
                self._serving.append(self._pool.submit(self._work))

    def _work(self) -> None:
        try:
            self.serve()
        except TrickleError as error:
            # The request that was being executed, if any, is told to be lost by the next sweep.
            logger.warning("could not look for requests", extra={"code": error.code})
        except Exception:
            # Likewise; nobody asks this future for what became of it.
            logger.exception("looking for requests met an error")

    def _sweep(self) -> None:
        with self._claiming, self._runtime.connection() as connection:
            settings = self._runtime.settings
            sweep_requests(
                connection,
                self._runtime.owner,
                list(self._running),
                quota=settings.requests_per_caller,
                keep=timedelta(hours=settings.request_retention_hours),
            )

    def _stop_unwanted(self) -> None:
        running = dict(self._running)
        if not running:
            return
        with self._runtime.connection() as connection:
            unwanted = list_unwanted(connection, list(running))
        for request in unwanted:
            running[request].cancel()


def _unforeseen(error: Exception) -> InternalError:
    return InternalError(
        f"unexpected {type(error).__name__}: {error}",
        hint="Report this; the log of the daemon has more.",
    )
