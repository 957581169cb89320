"""Which engine computes the stages of a stream table's refreshes."""

from __future__ import annotations

from enum import Enum

from pgtrickle.model.text.choices import parse_choice


class EngineMode(Enum):
    """Which engine computes the stages that any engine can compute."""

    SPARK = "spark"
    AUTO = "auto"  # the one that is predicted to be quicker, refresh by refresh
    POSTGRES = "postgres"  # no JVM starts


def parse_engine(text: EngineMode | str) -> EngineMode:
    """Read an engine, or raise ST501.

    >>> parse_engine("Auto")
    <EngineMode.AUTO: 'auto'>
    """
    return parse_choice(EngineMode, text, 'the engine "{}" does not exist')
