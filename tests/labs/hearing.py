"""What a session heard on a channel, to the last notice and without waiting for silence."""

from __future__ import annotations

import uuid

import psycopg

from tests.labs.lab import Lab

PATIENCE = 60.0  # seconds; notices come in a moment, unless the machine is busy


def heard(lab: Lab, listener: psycopg.Connection, channel: str) -> list[str]:
    """Return the payloads of all that was sent before now.

    A mark is sent last, and notices arrive in the order of the commits: whatever comes before the
    mark is all there is.
    """
    mark = f"mark {uuid.uuid4()}"
    lab.connection.execute("SELECT pg_notify(%s, %s)", [channel, mark])
    payloads: list[str] = []
    for notice in listener.notifies(timeout=PATIENCE):
        if notice.payload == mark:
            return payloads
        payloads.append(notice.payload)
    raise AssertionError(f"the mark did not arrive after {payloads}")
