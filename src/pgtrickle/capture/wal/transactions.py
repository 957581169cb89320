"""Assemble decoded messages into whole, committed transactions, in the order of commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pgtrickle.capture.wal.decode import decode
from pgtrickle.capture.wal.messages import (
    Begin,
    Change,
    Commit,
    Delete,
    Emitted,
    Insert,
    Origin,
    Relation,
    Truncate,
    Type,
    Update,
)
from pgtrickle.errors import WalMessageError
from pgtrickle.model.capture.lsn import NOWHERE, format_lsn

Step = Begin | Relation | Change | Commit


def read_transactions(messages: Iterable[bytes]) -> Iterator[Step]:
    """Yield the relevant messages of a stream, after checking that it is well-formed.

    A transaction comes as its ``Begin``, its shapes and changes, and its ``Commit``.  ST321 is
    raised if one does not begin, end or follow as the protocol says, also if the stream ends
    inside one, so a caller that writes as it reads must not commit before the end.
    """
    current: Begin | None = None
    reached = NOWHERE
    for data in messages:
        message = decode(data)
        # This runs once a changed row, and isinstance is quicker than a pattern.
        if isinstance(message, (Insert, Update, Delete)) and current is not None:
            yield message
            continue
        match message:
            case Insert() | Update() | Delete() | Truncate() | Relation():
                if current is None:
                    raise _refuse("a change outside a transaction")
                yield message
            case Begin():
                if current is not None:
                    raise _refuse("a transaction inside another")
                if message.commit_lsn < reached:
                    raise _refuse(f"a transaction from before {format_lsn(reached)}")
                current = message
                yield message
            case Commit():
                if current is None or current.commit_lsn != message.commit_lsn:
                    raise _refuse("the end of a transaction that did not begin")
                if message.end_lsn <= message.commit_lsn:
                    raise _refuse("a transaction that ends before its commit")
                current, reached = None, message.end_lsn
                yield message
            case Origin() | Type() | Emitted():
                pass
    if current is not None:
        raise _refuse("a transaction without an end")


def _refuse(what: str) -> WalMessageError:
    return WalMessageError(
        f"the log holds {what}",
        hint="Check that only pgtrickle reads its slot: pgtrickle doctor.",
    )
