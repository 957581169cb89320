"""Liveness and readiness of the daemon over HTTP, for systemd, Kubernetes and people.

``/live`` answers 200 as long as the scheduler's thread turns, ``/ready`` once this process leads
or stands by on a server that answers, and gets on with it; 503 otherwise.  Both tell why as JSON.
``/metrics`` is written elsewhere (``cli/daemon/metrics.py``) and always answers 200.

What can be asked is asked when somebody wants to know, and not by the thread that may be stuck.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from pgtrickle.errors import SettingError

LOOPBACK = "127.0.0.1"
_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_ASKING_SECONDS = 10  # after which a client that asks nothing is sent away
_PATIENCE = 60.0  # seconds without a round after which the scheduler is taken for dead


@dataclass(slots=True)
class Health:
    """The latest state that the daemon reported."""

    state: str = "starting"  # starting, waiting, standing by, leading, stopping
    problem: str | None = None  # why it cannot work at the moment
    last_round: float = field(default_factory=time.monotonic)
    leads: Callable[[], bool] = lambda: True  # as far as it is known now
    checks: list[Callable[[], str | None]] = field(default_factory=list)  # each finds a problem

    def round(self, state: str) -> None:
        """Take note of a round of the scheduler."""
        self.state, self.last_round = state, time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether the scheduler makes its rounds."""
        return self.seconds_since_last_round < _PATIENCE

    @property
    def ready(self) -> bool:
        """Whether it can do its part."""
        return (
            self.alive and self.state in {"leading", "standing by"} and self.find_problem() is None
        )

    @property
    def leading(self) -> bool:
        """Whether it leads: not beyond what it could prolong."""
        return self.state == "leading" and self.leads()

    def find_problem(self) -> str | None:
        """Return why it cannot work at the moment, if so."""
        return self.problem or next(filter(None, (check() for check in self.checks)), None)

    @property
    def seconds_since_last_round(self) -> float:
        """How long ago the scheduler made a round."""
        return time.monotonic() - self.last_round

    def document(self) -> dict[str, object]:
        """Return what a probe is told."""
        return {
            "state": "standing by" if self.state == "leading" and not self.leading else self.state,
            "problem": self.find_problem(),
            "seconds_since_last_round": round(self.seconds_since_last_round, 1),
        }


@contextmanager
def serving_health(
    health: Health,
    port: int | None,
    metrics: Callable[[], bytes] | None = None,
    address: str = LOOPBACK,
) -> Iterator[int | None]:
    """Answer probes on a port of an address, 0 for a free one; yields the port.

    ``metrics`` writes what ``/metrics`` answers, in a thread of its own for each that asks.
    """
    if port is None:
        yield None
        return

    # Together they take longer to import than --help should.
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # noqa: PLC0415

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

    class Handler(BaseHTTPRequestHandler):
        timeout = _ASKING_SECONDS

        def do_GET(self) -> None:
            answers = {"/live": health.alive, "/ready": health.ready}
            if self.path == "/metrics" and metrics is not None:
                self.answer(HTTPStatus.OK, _PROMETHEUS, metrics())
            elif self.path in answers:
                status = HTTPStatus.OK if answers[self.path] else HTTPStatus.SERVICE_UNAVAILABLE
                self.answer(status, "application/json", json.dumps(health.document()).encode())
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        def answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
            """Probes are no news."""

    try:
        server = Server((address, port), Handler)
    except OSError as error:
        raise SettingError(
            f"the port {port} cannot be used for health checks on {address}: {error.strerror}",
            hint="Choose another with --health-port, or an address of this machine with"
            " --health-address.",
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="pgtrickle-health", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
