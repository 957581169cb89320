"""Why a group of stream tables cannot be refreshed in one transaction."""

from __future__ import annotations


class TooMuchUnseenError(Exception):
    """Rows that only the writer's transaction sees are too many to be read through it."""
