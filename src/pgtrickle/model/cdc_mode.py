"""How the changes of a source are captured."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from pgtrickle.errors import SettingError


class CdcMode(Enum):
    """What a user asks for; a source itself has TRIGGER or WAL."""

    TRIGGER = "TRIGGER"  # triggers write to the buffer, in the writer's own transaction
    WAL = "WAL"  # the write-ahead log is decoded; refused where that cannot be
    AUTO = "AUTO"  # WAL where everything is in place for it, triggers elsewhere


def parse_cdc_mode(text: str) -> CdcMode:
    """Read a mode as users write it, or raise ST501.

    >>> parse_cdc_mode("wal")
    <CdcMode.WAL: 'WAL'>
    """
    try:
        return CdcMode(text.upper())
    except ValueError:
        raise SettingError(
            f'the capture mode "{text}" does not exist', hint="Choose trigger, wal or auto."
        ) from None


def combine_modes(requested: Iterable[CdcMode | None], default: CdcMode) -> CdcMode:
    """Return the mode of a source that several stream tables share.

    One that insists on triggers has its way, because triggers serve everybody.

    >>> combine_modes([CdcMode.WAL, None], CdcMode.AUTO)
    <CdcMode.WAL: 'WAL'>
    >>> combine_modes([CdcMode.WAL, CdcMode.TRIGGER], CdcMode.AUTO)
    <CdcMode.TRIGGER: 'TRIGGER'>
    """
    asked = {mode for mode in requested if mode is not None}
    order = (CdcMode.TRIGGER, CdcMode.WAL, CdcMode.AUTO)
    return next((mode for mode in order if mode in asked), default)
