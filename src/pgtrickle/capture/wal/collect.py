"""Collect the buffer rows of a part of the log, by table.

The position of a transaction's commit alone decides whether its changes are taken: not if the
buffers hold it already (before ``position``), and not if triggers captured it (before the source's
hand-over).

A column that the table did not have under its name and type when a row was written is NULL in the
buffer.  Then a marker is added, as for a TRUNCATE: a column may be renamed and renamed back
before the next refresh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pgtrickle.capture.wal.buffer_rows import Fit, Projection, make_projection
from pgtrickle.capture.wal.messages import Begin, Commit, Delete, Insert, Relation, Truncate, Update
from pgtrickle.capture.wal.transactions import Step
from pgtrickle.errors import WalMessageError
from pgtrickle.model.capture.lsn import NOWHERE, Lsn

_EPOCH = 1 << 32


def widen_xid(xid: int, recent: int) -> int:
    """Return the full id of a transaction in the log, given that of any recent one.

    The log holds 32 bits.  PostgreSQL keeps all ids in use within half of that range, so the right
    one is the nearest.

    >>> widen_xid(5, 7 << 32 | 9) == 7 << 32 | 5
    True
    >>> widen_xid(4294967290, 7 << 32 | 9) == 6 << 32 | 4294967290
    True
    """
    distance = (xid - recent) % _EPOCH
    full = recent + (distance if distance < _EPOCH // 2 else distance - _EPOCH)
    if full < 0:
        raise WalMessageError(
            f"the log holds the transaction {xid}, which has not begun",
            hint="Check the server with: pgtrickle doctor.",
        )
    return full


@dataclass(slots=True)
class Collector:
    """Takes the steps of transactions and keeps the lines that go to buffers."""

    sources: Mapping[int, Lsn]  # captured from the log, and from where on
    fit: Callable[[Relation], Fit]  # of a buffer's columns and a shape
    position: Lsn
    recent_xid: int
    pending: dict[Projection, list[bytes]] = field(default_factory=dict)
    pending_lines: int = 0
    changes: int = 0  # taken, of all kinds
    end: Lsn = NOWHERE  # of the last transaction
    _projections: dict[int, Projection | None] = field(default_factory=dict)
    _incomplete: set[Projection] = field(default_factory=set)  # marked in this transaction
    _xid: bytes = b""
    _commit_lsn: Lsn = NOWHERE

    def take(self, step: Step) -> None:
        """Take the next step of the stream."""
        # This runs once a changed row, and isinstance is quicker than a pattern.
        if isinstance(step, (Insert, Update, Delete)):
            projection = self._projection(step.relid)
            if projection is not None:
                lines = projection.lines(self._xid, step)
                if projection not in self.pending:
                    self.pending[projection] = []
                self.pending[projection] += lines
                self.pending_lines += len(lines)
                self.changes += 1
            return
        match step:
            case Truncate():
                for relid in step.relids:
                    projection = self._projection(relid)
                    if projection is not None:
                        self._mark(projection)
                        self.changes += 1
            case Begin():
                self._xid = b"%d" % widen_xid(step.xid, self.recent_xid)
                self._commit_lsn = step.commit_lsn
                self._incomplete.clear()
            case Relation():
                known = step.relid in self.sources
                self._projections[step.relid] = (
                    make_projection(step, self.fit(step)) if known else None
                )
            case Commit():
                self.end = step.end_lsn

    def give(self) -> dict[Projection, list[bytes]]:
        """Hand over the collected rows, and start again."""
        pending, self.pending, self.pending_lines = self.pending, {}, 0
        return pending

    def _projection(self, relid: int) -> Projection | None:
        try:
            projection = self._projections[relid]
        except KeyError:
            raise WalMessageError(
                "the log holds a change of a table whose shape it has not told",
                hint="Check the server with: pgtrickle doctor.",
            ) from None
        if (
            projection is None
            or self._commit_lsn < self.position
            or self._commit_lsn < self.sources[relid]
        ):
            return None
        if not projection.complete and projection not in self._incomplete:
            self._incomplete.add(projection)
            self._mark(projection)
        return projection

    def _mark(self, projection: Projection) -> None:
        self.pending.setdefault(projection, []).append(projection.marker(self._xid))
        self.pending_lines += 1
