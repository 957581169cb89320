"""How the changes of a source are captured."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from pgtrickle.model.text.choices import parse_choice


class CdcMode(Enum):
    """The mode that a user asks for; a source itself has TRIGGER or WAL."""

    TRIGGER = "TRIGGER"  # triggers write to the buffer, in the writer's own transaction
    WAL = "WAL"  # the write-ahead log is decoded; refused if that is not possible
    AUTO = "AUTO"  # WAL if all conditions are met, otherwise triggers


def parse_cdc_mode(text: CdcMode | str) -> CdcMode:
    """Read a mode as users write it, or raise ST501.

    >>> parse_cdc_mode("wal")
    <CdcMode.WAL: 'WAL'>
    """
    doubt = 'the capture mode "{}" does not exist'
    return parse_choice(CdcMode, text, doubt, "Choose trigger, wal or auto.")


def combine_modes(requested: Iterable[CdcMode | None], default: CdcMode) -> CdcMode:
    """Return the mode of a source that several stream tables share.

    If one asks for triggers, triggers are used, because they serve all consumers.

    >>> combine_modes([CdcMode.WAL, None], CdcMode.AUTO)
    <CdcMode.WAL: 'WAL'>
    >>> combine_modes([CdcMode.WAL, CdcMode.TRIGGER], CdcMode.AUTO)
    <CdcMode.TRIGGER: 'TRIGGER'>
    """
    asked = {mode for mode in requested if mode is not None}
    order = (CdcMode.TRIGGER, CdcMode.WAL, CdcMode.AUTO)
    return next((mode for mode in order if mode in asked), default)
