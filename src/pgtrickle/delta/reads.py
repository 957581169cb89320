"""The PostgreSQL queries that feed a derived plan, each bounded where that is possible.

A query's text is complete but for two kinds of marks, which the refresh fills in: the condition
that cuts a window at the old frontier (``:window``), and the key values of a stage that ran
earlier in the same refresh (``:keys(stage,column)``), which no other connection can see yet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from pgtrickle.algebra.nodes import (
    Filter,
    InnerJoin,
    Node,
    Project,
    Scan,
    SourceKind,
    Version,
    Weigh,
)
from pgtrickle.algebra.schema import children_of, scans_of
from pgtrickle.delta.key_sets import Bound, ChangedKeys, KeySet, Restriction, StoredKeys, bounds_of
from pgtrickle.errors import InternalError
from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.sql.emit import changes_view, rows_view
from pgtrickle.sql.marks import fill, find
from pgtrickle.sql.scalars import bare_column

WINDOW_MARK = ":window"
PAGES_MARK = "{ctid range}"
_CHANGES_SCHEMA = "pgtrickle_changes"
_WINDOW = f"{WINDOW_MARK} AND __weight <> 0"
_KEYS_MARK = r":keys\((?P<stage>[^,()]+),(?P<column>[^()]+)\)"


class ReadKind(Enum):
    """Where the rows of a read come from."""

    CHANGES = "changes"  # the window of a change buffer
    KEYED = "keyed"  # a table or state, bounded by key sets
    FULL = "full"  # a table, state or query, unbounded
    STAGE = "stage"  # the changes that an earlier stage of this refresh found


@dataclass(frozen=True, slots=True)
class Read:
    """One relation that the engine's SQL names, and the query that fills it."""

    view: str
    source: str
    kind: ReadKind
    columns: tuple[Column, ...]
    computed: frozenset[str]  # columns the engine computes with; the others only pass through
    sql: str
    bounded_by: str
    weighted: bool
    relation: QualifiedName | None = None  # a table that may be read in parts ...
    parts_sql: str = ""  # ... by this query, with a mark for a range of its pages


def buffer_relation(relid: int) -> QualifiedName:
    """Name the change buffer of a source.

    >>> str(buffer_relation(16384))
    'pgtrickle_changes.changes_16384'
    """
    return QualifiedName(_CHANGES_SCHEMA, f"changes_{relid}")


def keys_mark(stage: str, column: str) -> str:
    """Return the mark that stands for the values of a column among a stage's changes."""
    return f":keys({stage},{column})"


StateRows = Callable[[str], str]  # a stage's name -> the query that shows its stored rows


def reads_of(
    plan: Node, state_rows: StateRows, summed: frozenset[str] = frozenset()
) -> tuple[Read, ...]:
    """Return the reads of a derived plan, one for each relation it names.

    ``summed`` names the plan's columns with which the engine goes on to compute.
    """
    computed = frozenset(_computed_columns(plan, summed))
    bounds = bounds_of(plan)
    writer = _Writer(state_rows)
    reads: dict[str, Read] = {}
    for scan in scans_of(plan):
        # A scan stands in many arms of a derived plan, and its bounds are long: write them once.
        if needs_changes(scan) and changes_view(scan) not in reads:
            reads[changes_view(scan)] = writer.changes(scan, computed)
        if scan.version is not Version.CHANGES and rows_view(scan) not in reads:
            reads[rows_view(scan)] = writer.rows(scan, bounds[scan.alias], computed)
    return tuple(reads.values())


def needs_changes(scan: Scan) -> bool:
    """Tell whether a scan's version is read, or computed, from its changes."""
    if scan.version is Version.CHANGES:
        return True
    if scan.source.kind is SourceKind.STATE:
        return scan.version is Version.AFTER
    return scan.version is Version.BEFORE


def _computed_columns(node: Node, above: frozenset[str]) -> Iterator[str]:
    """Yield the columns that the engine compares or computes with, given those used above."""
    if isinstance(node, Filter):
        above = above.union(node.predicate.columns)
    if isinstance(node, Weigh):
        above = above.union(node.factor.columns)
    if isinstance(node, InnerJoin) and node.on is not None:
        above = above.union(node.on.columns)
    yield from above
    if isinstance(node, Project):
        above = frozenset(
            name
            for output in node.outputs
            if output.name in above or bare_column(output.scalar) is None
            for name in output.scalar.columns
        )
    for child in children_of(node):
        yield from _computed_columns(child, above)


class _Writer:
    def __init__(self, state_rows: StateRows) -> None:
        self._state_rows = state_rows

    def changes(self, scan: Scan, computed: frozenset[str]) -> Read:
        columns = tuple(output.column for output in scan.outputs)
        listed = self._outputs(scan, "__weight")
        if scan.source.kind is SourceKind.STATE:
            relation = stage_changes(scan.source.key)
            sql = f"SELECT {listed} FROM {relation}{self._where(scan)}"
            kind, bounded_by = ReadKind.STAGE, f"the changes of {scan.source.key}"
        else:
            buffer = buffer_relation(scan.source.relid)
            sql = f"SELECT {listed} FROM {buffer.sql}{self._where(scan, _WINDOW)}"
            kind, bounded_by = ReadKind.CHANGES, "the window since the last refresh"
        return Read(
            changes_view(scan),
            _label(scan),
            kind,
            columns,
            computed.intersection(column.name for column in columns),
            sql,
            bounded_by,
            weighted=True,
        )

    def rows(self, scan: Scan, bounds: tuple[Bound, ...], computed: frozenset[str]) -> Read:
        columns = tuple(output.column for output in scan.outputs)
        bounded = all(bounds)
        listed = self._outputs(scan) or "1 AS __one"
        condition = " OR ".join(self._bound(scan, bound) for bound in bounds) if bounded else ""
        in_parts = scan.source.kind is SourceKind.TABLE and not bounded
        select = f"SELECT {listed} FROM {self._from(scan)}"
        return Read(
            rows_view(scan),
            _label(scan),
            ReadKind.KEYED if bounded else ReadKind.FULL,
            columns,
            computed.intersection(column.name for column in columns),
            f"{select}{self._where(scan, condition)}",
            "; or ".join(_describe(scan, bound) for bound in bounds)
            if bounded
            else "nothing: every row is read",
            weighted=False,
            relation=scan.source.relation if in_parts else None,
            parts_sql=f"{select}{self._where(scan, PAGES_MARK)}" if in_parts else "",
        )

    def _outputs(self, scan: Scan, *more: str) -> str:
        parts = [
            f"{output.scalar.sql} AS {quote_identifier(output.name)}" for output in scan.outputs
        ]
        return ", ".join([*parts, *more])

    def _from(self, scan: Scan) -> str:
        if scan.source.relation is not None:
            return scan.source.relation.sql
        if scan.source.kind is SourceKind.STATE:
            return f"({self._state_rows(scan.source.key)}) AS stored"
        return f"({scan.source.query}) AS answer"

    def _where(self, scan: Scan, *conditions: str) -> str:
        parts = [f"({part})" for part in conditions if part]
        parts += [f"({scan.predicate.sql})"] if scan.predicate else []
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _bound(self, scan: Scan, bound: Bound) -> str:
        parts = []
        for one in bound:
            column = _expression(scan, one.column)
            part = f"{column} = ANY ({self._keys(one.keys)}{_collate(scan, one)})"
            parts.append(f"({part} OR {column} IS NULL)" if one.nullable else part)
        return f"({' AND '.join(parts)})"

    def _keys(self, keys: KeySet) -> str:
        """Write a key set as an array: an index then answers, also for several sets at once."""
        arrays = [self._key_array(one) for one in keys]
        return " || ".join(arrays)

    def _key_array(self, key: ChangedKeys | StoredKeys) -> str:
        expression = _expression(key.scan, key.column)
        if isinstance(key, StoredKeys):
            where = self._where(key.scan, self._bound(key.scan, key.bound))
            return f"ARRAY(SELECT {expression} FROM {self._from(key.scan)}{where})"
        if key.scan.source.kind is SourceKind.STATE:
            return keys_mark(key.scan.source.key, key.column)
        buffer = buffer_relation(key.scan.source.relid)
        where = self._where(key.scan, _WINDOW)
        return f"ARRAY(SELECT {expression} FROM {buffer.sql}{where})"


def _collate(scan: Scan, restriction: Restriction) -> str:
    """Compare by the collation of the column, so that its index answers, where others differ."""
    own = _type(scan, restriction.column)
    if own.category != "S" or not _is_stored(scan, restriction.column):
        return ""
    others = {_type(key.scan, key.column).collate for key in restriction.keys}
    collate = own.collate or 'pg_catalog."default"'
    return "" if others == {own.collate} else f" COLLATE {collate}"


def _is_stored(scan: Scan, column: str) -> bool:
    return any(o.name == column and bare_column(o.scalar) for o in scan.outputs)


def _type(scan: Scan, column: str) -> SqlType:
    return next(output.type for output in scan.outputs if output.name == column)


def stage_changes(stage: str) -> str:
    """Name the temporary table that holds the changes an aggregate stage found."""
    return quote_identifier(f"{stage}__changes")


def _label(scan: Scan) -> str:
    if scan.source.relation is not None:
        return str(scan.source.relation)
    return "the defining query" if scan.source.kind is SourceKind.QUERY else scan.source.key


def _expression(scan: Scan, column: str) -> str:
    for output in scan.outputs:
        if output.name == column:
            return output.scalar.sql if bare_column(output.scalar) else f"({output.scalar.sql})"
    raise InternalError(f"the scan {scan.alias} has no column {column}")


def _describe(scan: Scan, bound: Bound) -> str:
    return " and ".join(
        f"{_expression(scan, one.column)} in " + " or ".join(_describe_key(key) for key in one.keys)
        for one in bound
    )


def _describe_key(key: ChangedKeys | StoredKeys) -> str:
    expression = _expression(key.scan, key.column)
    if isinstance(key, ChangedKeys):
        return f"the changes of {_label(key.scan)} ({expression})"
    return f"{expression} of {_label(key.scan)} where {_describe(key.scan, key.bound)}"


def stage_keys(sql: str) -> set[tuple[str, str]]:
    """Return the stages and columns whose values the marks of a read ask for.

    >>> stage_keys("SELECT ':keys(a,b)' FROM t WHERE k = ANY (:keys(group_1,n))")
    {('group_1', 'n')}
    """
    return {(match["stage"], match["column"]) for match in find(sql, _KEYS_MARK)}


def fill_marks(sql: str, window: str, keys: Mapping[str, str]) -> str:
    """Replace the marks of a read by a condition and by array literals.

    >>> fill_marks("SELECT ':window' FROM b WHERE :window", "__xid > 7", {})
    "SELECT ':window' FROM b WHERE __xid > 7"
    """

    def value(match: re.Match[str]) -> str:
        mark = match.group()
        return window if mark == WINDOW_MARK else keys[mark]

    return fill(sql, rf"{WINDOW_MARK}\b|{_KEYS_MARK}", value)
