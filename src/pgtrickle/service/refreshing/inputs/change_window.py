"""The window of a refresh: where it reads the changes of its sources, and which.

Changes that triggers captured are visible under the snapshot of the tables. Changes from the log
are written later, so the buffers are read under a later snapshot, and a read of a table cannot look
up key values in them: the values are written into its query or, if there are very many, into a
table that every snapshot sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.capture.windows import window_predicate
from pgtrickle.delta.reads import KeyArray, fill_marks, stage_keys
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.refreshing.inputs.change_keys import MAX_KEYS
from pgtrickle.service.refreshing.snapshot import BufferView
from pgtrickle.sql.text.current_time import Moments
from pgtrickle.transit.arrow_reader import SnapshotReader

# Shares the values of an array, which one connection finds, with every other connection.
ShareKeys = Callable[[Connection, str], QualifiedName]


@dataclass(frozen=True, slots=True)
class Window:
    """The changes of the sources of one refresh."""

    buffers: BufferView
    reader: SnapshotReader  # of the buffers
    frontier: Frontier | None  # of the stream table before the refresh
    tables: Connection  # that sees the tables at the snapshot
    moments: Moments
    _found: dict[str, str] = field(default_factory=dict)  # key values, by expression

    @property
    def condition(self) -> str:
        """The condition on ``__xid`` of a buffer."""
        if self.frontier is None:
            return "true"
        return window_predicate(self.frontier.snapshot, self.buffers.upper)

    def find_keys(
        self, array: KeyArray, share: ShareKeys | None, *, apart: bool = False
    ) -> str | None:
        """Write the key values that a read of a table cannot find by itself; None if it can.

        ``apart``: another transaction than the one that wrote to the buffers makes the read.
        """
        if (self.buffers.upper is None and not apart) or stage_keys(array.sql):
            return None
        if self.buffers.upper is None or not array.moved:
            return self._find(array.sql, self.buffers.connection, share)
        captured = self._find(array.captured, self.buffers.connection, share)
        moved = self._find(array.moved, self.tables, share)
        return f"({captured} || {moved})"

    def _find(self, array: str, connection: Connection, share: ShareKeys | None) -> str:
        sql = fill_marks(array, self.condition, {}, self.moments)
        if sql not in self._found:
            self._found[sql] = self._literal(sql, connection, limited=share is not None) or (
                f"ARRAY(SELECT k FROM {share(connection, sql).sql})" if share else ""
            )
        return self._found[sql]

    @staticmethod
    def _literal(array: str, connection: Connection, *, limited: bool) -> str | None:
        """Return an array as a literal; None if it is limited and has too many elements."""
        literal = "quote_literal(concat(k)) || '::' || pg_typeof(k)::text"
        if limited:
            literal = f"CASE WHEN cardinality(k) <= {MAX_KEYS} THEN {literal} END"
        query = f"SELECT {literal} FROM (SELECT {array} AS k) AS keys"
        [(found,)] = connection.execute(trusted(query)).fetchall()
        return None if found is None else str(found)
