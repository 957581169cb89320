"""The messages of pgoutput, protocol version 1, as values.

Named tuples and not dataclasses: one is made for each changed row.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from pgtrickle.model.capture.lsn import Lsn


class Unchanged(Enum):
    """A TOASTed value that an UPDATE did not change: the log does not repeat it."""

    TOAST = "u"


UNCHANGED: Final = Unchanged.TOAST

# The text of each column, as its type's output function writes it.
Value = bytes | None | Unchanged
Row = Sequence[Value]


class Begin(NamedTuple):
    """A committed transaction follows, up to its ``Commit``."""

    commit_lsn: Lsn  # where its commit record starts
    committed_at: int  # microseconds since 2000
    xid: int  # 32 bits: without the epoch


class Commit(NamedTuple):
    """The end of a transaction."""

    commit_lsn: Lsn
    end_lsn: Lsn  # where its commit record ends
    committed_at: int


class Origin(NamedTuple):
    """The transaction was replicated from another server."""

    commit_lsn: Lsn
    name: str


class RelationColumn(NamedTuple):
    """A column as it was when the rows that follow were written."""

    name: str
    type_oid: int
    type_modifier: int
    key: bool  # part of the replica identity


class Relation(NamedTuple):
    """The shape of a table; precedes its first row and is repeated after each change."""

    relid: int
    schema: str
    name: str
    replica_identity: str  # as in pg_class.relreplident
    columns: tuple[RelationColumn, ...]


class Type(NamedTuple):
    """The name of a type that is not built in."""

    oid: int
    schema: str
    name: str


class Insert(NamedTuple):
    """A new row; ``plain`` if each of its values is present as text."""

    relid: int
    new: Row
    plain: bool = False


class Update(NamedTuple):
    """A changed row; ``old`` is complete only if the replica identity is FULL.

    It is ``plain`` if each value of both images is present as text.
    """

    relid: int
    old: Row | None
    old_complete: bool
    new: Row
    plain: bool = False


class Delete(NamedTuple):
    """A removed row; ``old`` is complete only if the replica identity is FULL."""

    relid: int
    old: Row
    old_complete: bool
    plain: bool = False


class Truncate(NamedTuple):
    """Emptied tables."""

    relids: tuple[int, ...]
    cascade: bool
    restart_identity: bool


class Emitted(NamedTuple):
    """A message of ``pg_logical_emit_message``."""

    transactional: bool
    lsn: Lsn
    prefix: str
    content: bytes


Change = Insert | Update | Delete | Truncate
Message = Begin | Commit | Origin | Relation | Type | Change | Emitted
