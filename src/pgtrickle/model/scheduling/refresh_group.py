"""The isolation of the members of a refresh group."""

from __future__ import annotations

from enum import Enum
from typing import Final

from pgtrickle.model.text.choices import parse_choice


class Isolation(Enum):
    """Whether the members of a group are refreshed at one moment."""

    READ_COMMITTED = "read_committed"  # each separately
    REPEATABLE_READ = "repeatable_read"  # at one moment, in one commit


# The default of the client, the command and the procedure.
DEFAULT_ISOLATION: Final = Isolation.REPEATABLE_READ


def parse_isolation(text: Isolation | str) -> Isolation:
    """Read an isolation, or raise ST501.

    >>> parse_isolation("read_committed")
    <Isolation.READ_COMMITTED: 'read_committed'>
    """
    return parse_choice(Isolation, text, 'the isolation "{}" does not exist')
