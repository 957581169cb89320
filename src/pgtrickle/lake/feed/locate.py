"""Find an attached lake table at the head of its catalog, and check that it is still the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from psycopg import Connection

from pgtrickle.errors import LakeReadError, LakeSourceError
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.tables import verbs_of
from pgtrickle.lake.reader.columns import ReadColumn, list_columns
from pgtrickle.lake.reader.scan import FoundTable, find_same_table, find_table_at
from pgtrickle.model.lake.source import LakeSource
from pgtrickle.model.text.trusted import trusted

# Changes that move rows and alter none.
_MOVES = frozenset({"inline_flush", "flushed_inlined", "rewrite_delete"})
# DuckDB gives updated rows other ids when it merges their files, in older snapshots too,
# and nothing records which row had which id before.
_RENUMBERS = frozenset({"merge_adjacent"})


@dataclass(frozen=True, slots=True)
class Located:
    """An attached table at the head of its catalog."""

    table: FoundTable
    columns: tuple[ReadColumn, ...]  # the followed ones, in order
    gap: str | None  # why the changes since the last snapshot are unknown
    touched: bool  # rows may have changed since
    renumbered: bool = False  # row ids may have changed since: only all rows tell


def locate(connection: Connection, catalog: LakeCatalog, source: LakeSource, head: int) -> Located:
    """Find the table of a source; raises ST705 if it is gone or no longer fits."""
    table = find_same_table(connection, catalog, source.table_id, source.table_uuid, head)
    gap = _find_gap(connection, catalog, source, head)
    if table is None:
        try:
            table = find_table_at(connection, catalog, source.lake_table, head)
        except LakeReadError:
            raise LakeSourceError(
                f'the lake table "{source.lake_table}" was dropped',
                hint=f'"{source.landing}" keeps the last rows. Give it up with: pgtrickle lake'
                f" detach {source.landing}.",
            ) from None
        gap = f'the lake table "{source.lake_table}" was created again'
        key = attrgetter("name")
    else:
        key = attrgetter("id")  # a new name in the lake changes nothing here
    columns = _followed(source, list_columns(connection, catalog, table.id, head), key)
    verbs = None if gap is not None else _find_verbs(connection, catalog, source, head)
    if verbs is None:
        return Located(table, columns, gap, touched=True, renumbered=True)
    return Located(table, columns, gap, bool(verbs - _MOVES), bool(verbs & _RENUMBERS))


def _find_gap(
    connection: Connection, catalog: LakeCatalog, source: LakeSource, head: int
) -> str | None:
    if head < source.snapshot_id:
        return f"the newest snapshot is {head}, and {source.snapshot_id} was read before"
    known = connection.execute(
        trusted(f"SELECT FROM {catalog.table('snapshot')} WHERE snapshot_id = %s"),
        [source.snapshot_id],
    ).fetchone()
    return f"the snapshot {source.snapshot_id} has expired" if known is None else None


_LIST_CHANGES = """
    SELECT c.changes_made FROM {snapshot} AS s LEFT JOIN {snapshot_changes} AS c USING (snapshot_id)
     WHERE s.snapshot_id > %(since)s AND s.snapshot_id <= %(head)s
"""


def _find_verbs(
    connection: Connection, catalog: LakeCatalog, source: LakeSource, head: int
) -> set[str] | None:
    """Return the operations on the table since the last snapshot; None if unknown."""
    names = {name: catalog.table(name) for name in ("snapshot", "snapshot_changes")}
    found = connection.execute(
        trusted(_LIST_CHANGES.format(**names)), {"since": source.snapshot_id, "head": head}
    ).fetchall()
    if len(found) < head - source.snapshot_id or (None,) in found:
        return None  # some in between have expired, with their records
    return {verb for (changes,) in found for verb in verbs_of(changes, source.table_id)}


def _followed(
    source: LakeSource, listed: tuple[ReadColumn, ...], key: Callable[[Any], object]
) -> tuple[ReadColumn, ...]:
    """Return the followed columns, found by their ids."""
    by_key = {key(one): one for one in listed}
    for column in source.columns:
        found = by_key.get(key(column))
        if found is None or found.kind != column.kind:
            raise _misfit(source, column.name, None if found is None else found.kind)
    return tuple(by_key[key(column)] for column in source.columns)


def _misfit(source: LakeSource, column: str, kind: str | None) -> LakeSourceError:
    what = "was dropped" if kind is None else f"is of the type {kind} now"
    return LakeSourceError(
        f'the column "{column}" of the lake table "{source.lake_table}" {what}',
        hint=f'"{source.landing}" keeps the last rows. Drop what reads it, detach it and attach'
        " the table again, with the columns that it has.",
    )
