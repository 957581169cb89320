"""A server of requests on the bench, with threads of its own as a daemon has it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from pgtrickle.service.requests.server import RequestServer
from tests.labs.lab import Lab
from tests.security.bench import REVENUE, Bench


@contextmanager
def stocked(bench: Bench, *operators: str) -> Iterator[Lab]:
    """Open pgtrickle as the owner, with one stream table and some operators."""
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        for who in operators:
            lab.run(f"SELECT pgtrickle.grant_access('{bench.roles[who]}', 'operator')")
        yield lab


@contextmanager
def serving(lab: Lab, workers: int = 2) -> Iterator[RequestServer]:
    """Serve requests from threads, as a daemon does."""
    with RequestServer(lab.trickle._runtime, workers=workers) as server:
        yield server


def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    """Wait for something that another thread brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def refused(connection: psycopg.Connection[Any], statement: str) -> str:
    """Return the SQLSTATE with which a statement fails."""
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(statement.encode())
    return str(caught.value.sqlstate)


def submit(connection: psycopg.Connection[Any], verb: str, arguments: str = "{}") -> int:
    """Ask for something and do not wait."""
    query = "SELECT pgtrickle.submit_request(%s, %s::jsonb)"
    [(request,)] = connection.execute(query, [verb, arguments]).fetchall()
    return int(request)


def ended(lab: Lab, request: int) -> tuple[str, str | None] | None:
    """Return how a request ended and the code of its error, None while it has not."""
    [(status, code)] = lab.rows(
        f"SELECT status, error ->> 'code' FROM pgtrickle.pgt_requests WHERE request_id = {request}"
    )
    return None if status in {"QUEUED", "RUNNING"} else (status, code)
