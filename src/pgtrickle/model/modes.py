"""The words for modes and statuses that users write, in either case."""

from __future__ import annotations

from pgtrickle.errors import SettingError
from pgtrickle.model.stream_table import RefreshMode, Status


def parse_refresh_mode(text: str) -> RefreshMode:
    """Read a refresh mode.

    >>> parse_refresh_mode("auto")
    <RefreshMode.AUTO: 'AUTO'>
    """
    try:
        return RefreshMode(text.upper())
    except ValueError:
        raise SettingError(
            f'the refresh mode "{text}" does not exist',
            hint=f"Choose one of {', '.join(mode.value for mode in RefreshMode)}.",
        ) from None


def parse_status(text: str) -> Status:
    """Read a status."""
    try:
        return Status(text.upper())
    except ValueError:
        raise SettingError(
            f'the status "{text}" does not exist', hint="Choose ACTIVE or SUSPENDED."
        ) from None
