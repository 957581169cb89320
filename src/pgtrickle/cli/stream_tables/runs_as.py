"""How a stream table is really refreshed, and why not otherwise."""

from __future__ import annotations

from pgtrickle.model.stream_table import StreamTable


def mode_in_effect(table: StreamTable) -> str:
    """Return the mode in effect, and the reason if it is not the one asked for."""
    reason = f": {table.downgrade_reason}" if table.downgrade_reason else ""
    return f"{table.effective_refresh_mode.value}{reason}"


def runs_as(table: StreamTable) -> str:
    """Return the same as a sentence."""
    return f"runs as {mode_in_effect(table)}"
