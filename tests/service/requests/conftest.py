"""A database whose requests are served, as a daemon does it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.labs.lab import Lab


@pytest.fixture
def served(lab: Lab) -> Iterator[Lab]:
    """Serve the requests of a test from another thread, every few milliseconds."""
    from pgtrickle.service.requests.server import RequestServer

    done = threading.Event()
    with RequestServer(lab.trickle._runtime) as server:

        def serve() -> None:
            while not done.wait(0.005):
                server.serve()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield lab
        finally:
            done.set()
            thread.join()


@pytest.fixture(autouse=True)
def forget_requests(lab: Lab) -> None:
    lab.run("DELETE FROM pgtrickle.pgt_requests")
