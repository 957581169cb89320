"""Parse the modes and statuses that users write, in any case."""

from __future__ import annotations

from pgtrickle.model.stream_table import RefreshMode, Status
from pgtrickle.model.text.choices import parse_choice


def parse_refresh_mode(text: RefreshMode | str) -> RefreshMode:
    """Read a refresh mode.

    >>> parse_refresh_mode("auto")
    <RefreshMode.AUTO: 'AUTO'>
    """
    return parse_choice(RefreshMode, text, 'the refresh mode "{}" does not exist')


def parse_status(text: Status | str) -> Status:
    """Read a status."""
    doubt = 'the status "{}" does not exist'
    return parse_choice(Status, text, doubt, "Choose ACTIVE or SUSPENDED.")
