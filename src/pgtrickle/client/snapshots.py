"""The verbs on snapshots of stream tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pgtrickle.catalog.snapshots.entries import list_snapshots
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.table_snapshot import ListedSnapshot, SnapshotDiff
from pgtrickle.model.text.shown import Listing
from pgtrickle.service.naming import Naming

if TYPE_CHECKING:  # each verb imports its use case when it is called
    from pgtrickle.model.text.names import QualifiedName


class SnapshotVerbs(Naming):
    """Save the rows and the state of a stream table, and restore them.

    It is ``trickle.snapshots``.
    """

    def snapshot_stream_table(
        self, name: str, target: str | None = None, *, to_lake: bool = False
    ) -> QualifiedName:
        """Take a snapshot, and return the name of the table that holds its rows.

        Without ``target`` that is ``snapshot_<name>_<milliseconds>`` beside the stream table.
        With ``to_lake`` the copy in the lake holds the rows, in a snapshot of the lake that does
        not expire, and no table is made.
        """
        from pgtrickle.service.lifecycle.snapshots.take import snapshot_stream_table

        return snapshot_stream_table(self._runtime, self._name(name), target, to_lake=to_lake)

    def restore_from_snapshot(self, name: str, source: str) -> RefreshReport:
        """Give a stream table the rows, the state and the frontier of one of its snapshots.

        A ``source`` without a schema is looked for beside the stream table. The next refresh
        continues from there; if changes after the snapshot are gone, it reinitializes.
        """
        from pgtrickle.service.lifecycle.snapshots.restore import restore_from_snapshot

        return restore_from_snapshot(self._runtime, self._name(name), source)

    def list_snapshots(self, name: str | None = None) -> Listing[ListedSnapshot]:
        """Return the snapshots of one stream table or of all, the oldest first."""
        with self._runtime.connection() as connection:
            wanted = None if name is None else self._name(name)
            return Listing(list_snapshots(connection, wanted))

    def diff_snapshots(self, a: str, b: str | None = None, max_rows: int = 100) -> SnapshotDiff:
        """Return the rows that were added and removed from snapshot ``a`` to snapshot ``b``.

        Without ``b``, up to the present rows of the stream table.  PostgreSQL compares them with
        the rights of the connected role; rows in a lake are read into a temporary table first.
        """
        from pgtrickle.service.lifecycle.snapshots.compare import diff_snapshots

        after = None if b is None else self._name(b)
        return diff_snapshots(self._runtime, self._name(a), after, max_rows)

    def drop_snapshot(self, table: str) -> QualifiedName:
        """Drop a snapshot and its table; return the name of that."""
        from pgtrickle.service.lifecycle.snapshots.drop import drop_snapshot

        return drop_snapshot(self._runtime, self._name(table))
