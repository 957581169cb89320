"""Turn decoded changes into rows of a change buffer, as lines for COPY.

    insert           + new
    delete           - old
    update           - old, + new; nothing if no captured column changed
    truncate         a row of weight 0

The old image must be complete, which needs ``REPLICA IDENTITY FULL``: a weight of -1 removes a row
by all its captured columns.  A TOASTed value that an UPDATE did not change is not in the new image;
it is taken from the old image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from pgtrickle.capture.wal.messages import UNCHANGED, Delete, Insert, Relation, Row, Update, Value
from pgtrickle.errors import WalGapError, WalMessageError

_WIDTH = "a row and its table differ in width"
# The mark for NULL in a line; the same character in a value is escaped.
NULL = b"\x01"
_SPECIAL = b"\\\t\n\r" + NULL
_ESCAPES = {
    ord("\\"): b"\\\\",
    ord("\t"): b"\\t",
    ord("\n"): b"\\n",
    ord("\r"): b"\\r",
    1: b"\\001",
}


class Fit(NamedTuple):
    """The columns of a buffer that a table had, in one of its shapes."""

    columns: tuple[str, ...]
    complete: bool = True  # there is no other


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """How the rows of a table, in one of its shapes, become rows of its buffer."""

    relation: Relation
    columns: tuple[str, ...]  # of the buffer, in the order of a line
    places: tuple[int, ...]  # of these columns in a row of the table
    pick: Callable[[Row], tuple[Value, ...]]  # the values at these places
    width: int  # of a row of the table
    complete: bool  # every column of the buffer is among them

    def lines(self, xid: bytes, change: Insert | Update | Delete) -> list[bytes]:
        """Return the lines of one change; ``xid`` is the transaction's full id as text."""
        if change.plain:
            lines = self._plain_lines(xid, change)
            if lines is not None:
                return lines
        if isinstance(change, Insert):
            return [self._line(xid, b"1", self._new(change.new, None))]
        old = self._old(change.old, complete=change.old_complete)
        if isinstance(change, Delete):
            return [self._line(xid, b"-1", old)]
        new = self._new(change.new, change.old)
        if old == new:
            return []
        return [self._line(xid, b"-1", old), self._line(xid, b"1", new)]

    def _plain_lines(self, xid: bytes, change: Insert | Update | Delete) -> list[bytes] | None:
        """Do the same if every value is text, which is much faster; None if in doubt."""
        if isinstance(change, Insert):
            if len(change.new) != self.width:
                return None
            return [_plain_line(xid, b"1", self.pick(change.new))]
        if change.old is None or not change.old_complete or len(change.old) != self.width:
            return None
        old = self.pick(change.old)
        if isinstance(change, Delete):
            return [_plain_line(xid, b"-1", old)]
        new = self.pick(change.new)  # as wide as the old one
        if old == new:
            return []
        return [_plain_line(xid, b"-1", old), _plain_line(xid, b"1", new)]

    def marker(self, xid: bytes) -> bytes:
        """Return the line of a TRUNCATE."""
        return b"\t".join([xid, b"0", *[NULL] * len(self.columns)])

    def _old(self, row: Row | None, *, complete: bool) -> tuple[Value, ...]:
        if row is None or not complete:
            raise WalGapError(
                f'the log lacks old values of "{self.relation.schema}.{self.relation.name}"',
                source_relid=self.relation.relid,
                hint="Set REPLICA IDENTITY FULL, and leave it so while the log is read.",
            )
        if len(row) != self.width:
            raise self._damaged(_WIDTH)
        return self.pick(row)

    def _new(self, row: Row, old: Row | None) -> tuple[Value, ...]:
        if len(row) != self.width:
            raise self._damaged(_WIDTH)
        values = self.pick(row)
        if UNCHANGED in values:
            if old is None:
                raise self._damaged("a new row lacks a value")
            return tuple(
                old[place] if value is UNCHANGED else value
                for place, value in zip(self.places, values, strict=True)
            )
        return values

    def _line(self, xid: bytes, weight: bytes, values: tuple[Value, ...]) -> bytes:
        fields = [NULL if value is None else _escape(value) for value in values]  # type: ignore[arg-type]  # UNCHANGED is gone
        return b"\t".join((xid, weight, *fields))

    def _damaged(self, what: str) -> WalMessageError:
        name = f"{self.relation.schema}.{self.relation.name}"
        return WalMessageError(
            f'could not read a change of "{name}" in the log: {what}',
            hint="Check the server with: pgtrickle doctor.",
        )


def make_projection(relation: Relation, fit: Fit) -> Projection:
    """Return the projection from rows of this shape to rows of a buffer with this fit."""
    places = {column.name: place for place, column in enumerate(relation.columns)}
    wanted = tuple(places[name] for name in fit.columns)
    return Projection(
        relation, fit.columns, wanted, _picker(wanted), len(relation.columns), fit.complete
    )


def _picker(places: tuple[int, ...]) -> Callable[[Row], tuple[Value, ...]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda row: tuple([row[place] for place in places])


def _plain_line(xid: bytes, weight: bytes, values: tuple[Value, ...]) -> bytes:
    line = b"\t".join((xid, weight, *values))  # type: ignore[arg-type]  # all of them are text
    # One pass in C tells whether anything but our own tabs needs escaping.
    if len(line) - len(line.translate(None, _SPECIAL)) == len(values) + 1:
        return line
    return b"\t".join((xid, weight, *map(_escape, values)))  # type: ignore[arg-type]  # as above


def _escape(value: bytes) -> bytes:
    if len(value.translate(None, _SPECIAL)) == len(value):
        return value
    return b"".join(_ESCAPES.get(byte, bytes([byte])) for byte in value)
