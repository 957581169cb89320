"""The unique key of a query's rows: which row took the place of which."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from psycopg import Connection

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Project,
    Recompute,
    Scan,
    SourceKind,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.schema import scans_of
from pgtrickle.binding.unique_keys import list_keys_without_null
from pgtrickle.delta.narrow import Key, keys_of
from pgtrickle.service.compile import Compiled
from pgtrickle.sql.scalars import bare_column


def find_unique_key(connection: Connection, compiled: Compiled) -> tuple[str, ...] | None:
    """Return the columns of the result whose values no two rows share; None if none are known.

    They are the groups of an aggregate, or columns of a table's key that no join repeats.  Without
    columns: there is one row.
    """
    rows = compiled.staged.rows
    if compiled.opaque or _repeats(rows.body):
        return None
    scans = scans_of(rows.body)
    tables = [one.source.relid for one in scans if one.source.kind is SourceKind.TABLE]
    filled = _list_keys(connection, tables) if tables else {}

    def keys(scan: Scan) -> Collection[Key]:
        if scan.source.kind is SourceKind.STATE:
            return compiled.keys(scan)
        return filled.get(scan.source.relid, ())

    names: dict[str | None, str] = {}
    for output in rows.outputs:
        names.setdefault(bare_column(output.scalar), output.name)
    shown = [
        tuple(names[column] for column in sorted(key))
        for key in keys_of(rows.body, keys) or ()
        if key <= names.keys()
    ]
    return min(shown, key=lambda key: (len(key), key), default=None)


def _repeats(node: Node) -> bool:
    """Tell whether some rows may be repeated, without being joined to others."""
    match node:
        case Weigh():
            return True
        case Filter() | Project() | Aggregate() | Recompute():
            return _repeats(node.child)
        case InnerJoin():
            return _repeats(node.left) or _repeats(node.right)
        case Scan() | UnionAll():  # which has no keys at all
            return False


# A unique index of a table says nothing of the tables that inherit from it.
_LIST_HEIRS = """
    SELECT DISTINCT i.inhparent::pg_catalog.int8
      FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhparent
     WHERE i.inhparent = ANY (%(relids)s::pg_catalog.oid[]) AND c.relkind <> 'p'
"""


def _list_keys(connection: Connection, relids: Sequence[int]) -> dict[int, list[Key]]:
    found = list_keys_without_null(connection, relids)
    for (relid,) in connection.execute(_LIST_HEIRS, {"relids": list(relids)}):
        found.pop(relid, None)
    return found
