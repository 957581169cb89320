"""Which stream tables their writers maintain now, and which wait for a refresh."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.immediate.install import list_ready, note_current


def list_followed(connection: Connection) -> dict[int, str]:
    """Return the stream tables that the scheduler leaves alone, each with the reason.

    Their timestamps advance, as those of idle ones do.
    """
    found = list_ready(connection)
    if found:
        note_current(connection, found)
    return dict.fromkeys(found, "its writers maintain it")
