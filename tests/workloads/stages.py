"""Counts the rounds through the engine that a refresh takes when every source has changed."""

from __future__ import annotations

import json

from pgtrickle.client.trickle import Trickle


def count_stages(trickle: Trickle, stream_table: str) -> int:
    """Return the number of stages that ``explain`` shows."""
    explained = json.loads(trickle.explain_stream_table(stream_table, format="json"))
    return len(explained["stages"])
