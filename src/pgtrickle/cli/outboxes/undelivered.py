"""Pipelines that a relay could not finish, though it was to deliver or receive everything."""

from __future__ import annotations

from pgtrickle.model.streams.inbound import InboundStatus
from pgtrickle.model.streams.relay import RelayStatus
from pgtrickle.model.text.printable import printable_line


def is_undelivered(one: RelayStatus | InboundStatus) -> bool:
    """Tell whether a relay that was to deal with everything did not."""
    return one.error_code is not None or one.paused or one.relay is not None


def undelivered_line(one: RelayStatus | InboundStatus) -> str:
    """Return what is said of it."""
    return printable_line(f"{one.pipeline}: {one.state}; {one.error_code or ''} {one.error or ''}")
