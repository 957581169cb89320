"""What a user may say about the diamond that ends in a stream table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from pgtrickle.errors import SettingError


class DiamondConsistency(Enum):
    """Whether the stream tables of a diamond are refreshed together."""

    ATOMIC = "atomic"  # at one moment, in one transaction
    NONE = "none"  # each by itself


class DiamondSchedulePolicy(Enum):
    """When the members of a group are due."""

    FASTEST = "fastest"  # as soon as one of them is
    SLOWEST = "slowest"  # when all of them are


_Choice = TypeVar("_Choice", DiamondConsistency, DiamondSchedulePolicy)


def parse_choice(kind: type[_Choice], text: str) -> _Choice:
    """Read one of the two, or raise ST501.

    >>> parse_choice(DiamondConsistency, "Atomic")
    <DiamondConsistency.ATOMIC: 'atomic'>
    """
    try:
        return kind(text.lower())
    except ValueError:
        raise SettingError(
            f'for a diamond there is no "{text}"',
            hint=f"Choose one of {', '.join(one.value for one in kind)}.",
        ) from None


@dataclass(frozen=True, slots=True)
class Diamond:
    """What a user says about the diamond that ends in a stream table; None: nothing."""

    consistency: DiamondConsistency | None = None
    policy: DiamondSchedulePolicy | None = None

    @classmethod
    def parse(cls, consistency: str | None, policy: str | None) -> Diamond:
        """Read both, as far as they are given."""
        return cls(
            None if consistency is None else parse_choice(DiamondConsistency, consistency),
            None if policy is None else parse_choice(DiamondSchedulePolicy, policy),
        )

    def __bool__(self) -> bool:
        return self.consistency is not None or self.policy is not None
