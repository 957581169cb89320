"""The options of the diamond that ends in a stream table."""

from __future__ import annotations

from enum import Enum

from pgtrickle.model.text.choices import parse_choice

_DOUBT = 'for a diamond there is no "{}"'


class DiamondConsistency(Enum):
    """Whether the stream tables of a diamond are refreshed together."""

    ATOMIC = "atomic"  # at one moment, in one transaction
    NONE = "none"  # each by itself


class DiamondSchedulePolicy(Enum):
    """When the members of a group are due."""

    FASTEST = "fastest"  # as soon as one of them is
    SLOWEST = "slowest"  # when all of them are


def parse_consistency(given: DiamondConsistency | str) -> DiamondConsistency:
    """Read a consistency, or raise ST501.

    >>> parse_consistency("Atomic")
    <DiamondConsistency.ATOMIC: 'atomic'>
    """
    return parse_choice(DiamondConsistency, given, _DOUBT)


def parse_schedule_policy(given: DiamondSchedulePolicy | str) -> DiamondSchedulePolicy:
    """Read a policy, or raise ST501."""
    return parse_choice(DiamondSchedulePolicy, given, _DOUBT)
