"""The PostgreSQL queries that feed a derived plan, each bounded if possible.

A query's text is complete except for marks, which the refresh fills in: the condition that cuts
a window at the old frontier (``:window``), the time of the old and of the new contents
(``:time_before`` and ``:time_after``), and values that only an earlier stage of the same refresh
knows and no other connection can see yet: its key values (``:keys(stage,column)``), and the range
of a value that changed (``:range_0``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from pgtrickle.algebra.nodes import (
    Node,
    Project,
    Scan,
    SourceKind,
    UnionAll,
    Version,
)
from pgtrickle.algebra.schema import children_of, columns_read_by, scans_of
from pgtrickle.delta.key_sets import (
    Between,
    Bound,
    ChangedKeys,
    KeySet,
    Restriction,
    StoredKeys,
)
from pgtrickle.delta.merged_keys import MergedKeys
from pgtrickle.delta.moving_scan import describe_moved, is_moving, listed, moved_rows, moved_values
from pgtrickle.errors import InternalError
from pgtrickle.model.compile_steps import check_time
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.sql.emit import changes_view, rows_view, stands_at
from pgtrickle.sql.scalars import bare_column, column_behind
from pgtrickle.sql.text.current_time import (
    AFTER_MARK,
    BEFORE_MARK,
    PRESENT,
    TIME_MARKS,
    Moments,
    mark_times,
)
from pgtrickle.sql.text.placeholders import fill, find

WINDOW_MARK = ":window"
PAGES_MARK = "{ctid range}"
_PAGES = r" WHERE \({0}\)(?P<more> AND )?| WHERE {0}".format(re.escape(PAGES_MARK))
_CHANGES_SCHEMA = "pgtrickle_changes"
_WINDOW = f"{WINDOW_MARK} AND __weight <> 0"
_KEYS_MARK = r":keys\((?P<stage>[^,()]+),(?P<column>[^()]+)\)"
_ARRAY_MARK = r":array_(?P<number>\d+)\b"
_RANGE_MARK = r":range_(?P<number>\d+)\b"


class ReadKind(Enum):
    """Where the rows of a read come from."""

    CHANGES = "changes"  # the window of a change buffer
    KEYED = "keyed"  # a table or state, bounded by key sets
    FULL = "full"  # a table, state or query, unbounded
    STAGE = "stage"  # the changes that an earlier stage of this refresh found


@dataclass(frozen=True, slots=True)
class KeyArray:
    """The values of a column among changes, which the reader of those changes already knows."""

    view: str  # the relation of the changes
    column: str
    type: SqlType
    captured: str  # how PostgreSQL finds the values among the captured changes
    moved: str = ""  # likewise among the rows that time has moved

    @property
    def sql(self) -> str:
        """How PostgreSQL finds the values by itself."""
        return f"({self.captured} || {self.moved})" if self.moved else self.captured


@dataclass(frozen=True, slots=True)
class ValueRange:
    """A condition that an expression lies between the values of a column among changes."""

    expression: str
    view: str  # the relation of the changes
    column: str
    type: SqlType  # of the values


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
    relation: QualifiedName | None = None  # the table or change buffer; None for other sources
    # The same rows and perhaps more, unbounded, with a mark for a range of the table's pages.
    parts_sql: str = ""
    marked_sql: str = ""  # the query with a mark for each of ...
    key_arrays: tuple[KeyArray, ...] = ()
    ranges: tuple[ValueRange, ...] = ()  # and for each of these, in both texts
    state: bool = False  # rows of a stage as they were stored before this refresh
    # Of changes, in part: the rows that time has moved, which are read where the table is.
    captured_sql: str = ""
    moved_sql: str = ""

    def sql_with(self, known: Callable[[KeyArray], str | None]) -> str:
        """Write the query with the known key values; the query finds the others itself."""
        return _fill_arrays(
            self.marked_sql,
            [literal or array.sql for array in self.key_arrays for literal in [known(array)]],
        )


def buffer_relation(relid: int) -> QualifiedName:
    """Name the change buffer of a source.

    >>> str(buffer_relation(16384))
    'pgtrickle_changes.changes_16384'
    """
    return QualifiedName(_CHANGES_SCHEMA, f"changes_{relid}")


def keys_mark(stage: str, column: str) -> str:
    """Return the mark for the values of a column among a stage's changes."""
    return f":keys({stage},{column})"


StateRows = Callable[[str], str]  # a stage's name -> the query that shows its stored rows


def reads_of(
    plan: Node,
    state_rows: StateRows,
    computed: frozenset[str],
    bounds: Mapping[str, tuple[Bound, ...]],
) -> tuple[Read, ...]:
    """Return the reads of a derived plan, one for each relation it names.

    ``computed`` names the columns with which the engine computes, see ``computed_columns``.
    """
    writer, merged = _Writer(state_rows), MergedKeys()
    reads: dict[str, Read] = {}
    for scan in scans_of(plan):
        # A scan occurs in many arms of a derived plan, and its bounds are long: write them once.
        if needs_changes(scan) and changes_view(scan) not in reads:
            reads[changes_view(scan)] = read_changes_of(scan, computed)
        if scan.version is not Version.CHANGES and rows_view(scan) not in reads:
            alternatives = merged.bounds(bounds[scan.alias])
            reads[rows_view(scan)] = writer.rows(scan, alternatives, computed)
    return tuple(reads.values())


def read_changes_of(scan: Scan, computed: frozenset[str]) -> Read:
    """Return the read of a scan's changes."""
    columns = tuple(output.column for output in scan.outputs)
    if is_moving(scan):
        return _read_moving(scan, columns, computed)
    listed = _outputs(scan, "__weight")
    buffer: QualifiedName | None = None
    if scan.source.kind is SourceKind.STATE:
        relation, where = stage_changes(scan.source.key), _where(scan)
        kind, bounded_by = ReadKind.STAGE, f"the changes of {scan.source.key}"
    else:
        buffer = buffer_relation(scan.source.relid)
        relation, where = buffer.sql, _where(scan, _WINDOW)
        kind, bounded_by = ReadKind.CHANGES, "the window since the last refresh"
    sql = f"SELECT {listed} FROM {relation}{where}"
    part = f"(SELECT * FROM {relation} WHERE {PAGES_MARK}) AS changes"
    return Read(
        changes_view(scan),
        _label(scan),
        kind,
        columns,
        computed.intersection(column.name for column in columns),
        sql,
        bounded_by,
        weighted=True,
        relation=buffer,
        parts_sql=f"SELECT {listed} FROM {part}{where}",
        marked_sql=sql,
    )


def _read_moving(scan: Scan, columns: tuple[Column, ...], computed: frozenset[str]) -> Read:
    """Return the read of the changes of a scan whose rows time moves, too."""
    buffer = buffer_relation(scan.source.relid).sql
    where = _where(scan, _WINDOW, mark=BEFORE_MARK)
    captured = f"SELECT {listed(scan, BEFORE_MARK)}, __weight FROM {buffer}{where}"
    if not columns:
        captured = f"SELECT __weight FROM {buffer}{where}"
    moved = moved_rows(scan)
    sql = f"{captured} UNION ALL {moved}"
    return Read(
        changes_view(scan),
        _label(scan),
        ReadKind.CHANGES,
        columns,
        computed.intersection(column.name for column in columns),
        sql,
        f"the window since the last refresh; and, as time passed, {describe_moved(scan)}",
        weighted=True,
        marked_sql=sql,
        captured_sql=captured,
        moved_sql=moved,
    )


def computed_columns(body: Node, summed: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the columns that the engine compares or computes with; others only pass through.

    ``summed`` names those that it also uses above ``body``.
    """
    found: set[str] = set()
    _add_computed(body, summed, found)
    return frozenset(found)


def needs_changes(scan: Scan) -> bool:
    """Tell whether a scan's version is read, or computed, from its changes."""
    return scan.version not in {stands_at(scan), Version.BOTH}


def _add_computed(node: Node, above: frozenset[str], found: set[str]) -> None:
    """Add the columns that the engine compares or computes with, given those used above."""
    if not isinstance(node, Project):
        above = above | columns_read_by(node)
    found |= above
    if isinstance(node, UnionAll):
        # What one arm computes is a number in all of them.
        above = above | {
            output.name
            for arm in node.children
            if isinstance(arm, Project)
            for output in arm.outputs
            if bare_column(output.scalar) is None
        }
    if isinstance(node, Project):
        above = frozenset(
            name
            for output in node.outputs
            if output.name in above or bare_column(output.scalar) is None
            for name in output.scalar.columns
        )
    for child in children_of(node):
        _add_computed(child, above, found)


class _Writer:
    """Writes the reads of rows."""

    def __init__(self, state_rows: StateRows) -> None:
        self._state_rows = state_rows
        # Of the read that is being written, by number.
        self._arrays: dict[KeyArray, int] = {}
        self._ranges: dict[ValueRange, int] = {}
        self._written: dict[int, str] = {}  # by the identity of the key

    def rows(self, scan: Scan, bounds: tuple[Bound, ...], computed: frozenset[str]) -> Read:
        columns = tuple(output.column for output in scan.outputs)
        bounded = all(bounds)
        listed = _outputs(scan) or "1 AS __one"
        self._arrays, self._ranges, self._written = {}, {}, {}
        condition = " OR ".join(self._bound(scan, bound) for bound in bounds) if bounded else ""
        marked = f"SELECT {listed} FROM {self._from(scan)}{_where(scan, condition)}"
        return Read(
            rows_view(scan),
            _label(scan),
            ReadKind.KEYED if bounded else ReadKind.FULL,
            columns,
            computed.intersection(column.name for column in columns),
            _fill_arrays(marked, [array.sql for array in self._arrays]),
            _Descriptions().bounds(scan, bounds) if bounded else "nothing: every row is read",
            weighted=False,
            relation=scan.source.relation,
            parts_sql=self._parts(scan, listed),
            marked_sql=marked,
            key_arrays=tuple(self._arrays),
            ranges=tuple(self._ranges),
            state=scan.source.kind is SourceKind.STATE,
        )

    def _parts(self, scan: Scan, listed: str) -> str:
        if scan.source.kind is SourceKind.TABLE:
            return f"SELECT {listed} FROM {self._from(scan)}{_where(scan, PAGES_MARK)}"
        if scan.source.kind is SourceKind.STATE:
            stored = f"{self._state_rows(scan.source.key)} WHERE {PAGES_MARK}"
            return f"SELECT {listed} FROM ({stored}) AS stored{_where(scan)}"
        return ""

    def _from(self, scan: Scan) -> str:
        if scan.source.relation is not None:
            return scan.source.relation.sql
        if scan.source.kind is SourceKind.STATE:
            return f"({self._state_rows(scan.source.key)}) AS stored"
        return f"({scan.source.query}) AS answer"

    def _bound(self, scan: Scan, bound: Bound) -> str:
        parts = []
        for one in bound:
            column = _expression(scan, one.column)
            if isinstance(one, Between):
                kind = _type(one.scan, one.value)
                asked = ValueRange(column, changes_view(one.scan), one.value, kind)
                parts.append(f":range_{self._ranges.setdefault(asked, len(self._ranges))}")
                continue
            collate = _collate(scan, one)
            tests = [f"{column} = ANY ({self._keys(keys)}{collate})" for keys in _alike(one.keys)]
            part = tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"
            parts.append(f"({part} OR {column} IS NULL)" if one.nullable else part)
        return f"({' AND '.join(parts)})"

    def _keys(self, keys: KeySet) -> str:
        """Write a key set as an array: an index then answers, also for several sets at once."""
        for one in keys:
            if id(one) not in self._written:
                self._written[id(one)] = self._key_array(one)
        return " || ".join(self._written[id(one)] for one in keys)

    def _key_array(self, key: ChangedKeys | StoredKeys) -> str:
        check_time()
        expression = _expression(key.scan, key.column)
        moved = ""
        if isinstance(key, StoredKeys):
            where = _where(key.scan, self._bound(key.scan, key.bound))
            return f"ARRAY(SELECT {expression} FROM {self._from(key.scan)}{where})"
        if key.scan.source.kind is SourceKind.STATE:
            stored = column_behind(key.scan.outputs, key.column)
            if stored is None:
                raise InternalError(f"the column {key.column} is computed from the stored rows")
            sql = keys_mark(key.scan.source.key, stored)
        else:
            mark = BEFORE_MARK if is_moving(key.scan) else AFTER_MARK
            buffer = buffer_relation(key.scan.source.relid)
            then = _expression(key.scan, key.column, mark)
            sql = f"ARRAY(SELECT {then} FROM {buffer.sql}{_where(key.scan, _WINDOW, mark=mark)})"
            if is_moving(key.scan):
                moved = f"ARRAY({moved_values(key.scan, quote_identifier(key.column))})"
        type_ = _type(key.scan, key.column)
        array = KeyArray(changes_view(key.scan), key.column, type_, sql, moved)
        return f":array_{self._arrays.setdefault(array, len(self._arrays))}"


def _alike(keys: KeySet) -> list[KeySet]:
    """Split a key set by the types of its values: arrays of different types cannot be one."""
    found: dict[str, KeySet] = {}
    for key in keys:
        base = _type(key.scan, key.column).base
        found[base] = (*found.get(base, ()), key)
    return list(found.values())


def _fill_arrays(sql: str, arrays: Sequence[str]) -> str:
    return fill(sql, _ARRAY_MARK, lambda match: arrays[int(match["number"])])


def fill_ranges(sql: str, conditions: Sequence[str]) -> str:
    """Replace the marks of a read's ranges by conditions.

    >>> fill_ranges("SELECT 1 FROM t WHERE (:range_0)", ['"x" BETWEEN 1 AND 2'])
    'SELECT 1 FROM t WHERE ("x" BETWEEN 1 AND 2)'
    """
    return fill(sql, _RANGE_MARK, lambda match: conditions[int(match["number"])])


def without_pages(sql: str) -> str:
    """Remove the mark for a range of pages, with its WHERE: the query then reads every page.

    PostgreSQL looks up the rows of a UNION ALL by an index if no arm of it has a condition.

    >>> without_pages("SELECT a FROM t WHERE ({ctid range}) AND (a > 1)")
    'SELECT a FROM t WHERE (a > 1)'
    >>> without_pages("SELECT a FROM (SELECT a FROM t WHERE {ctid range}) AS stored")
    'SELECT a FROM (SELECT a FROM t) AS stored'
    """
    return fill(sql, _PAGES, lambda match: " WHERE " if match["more"] else "")


def _outputs(scan: Scan, *more: str) -> str:
    parts = [listed(scan, AFTER_MARK)] if scan.outputs else []
    return ", ".join([*parts, *more])


def _where(scan: Scan, *conditions: str, mark: str = AFTER_MARK) -> str:
    parts = [f"({part})" for part in conditions if part]
    parts += [f"({mark_times(scan.predicate.sql, mark)})"] if scan.predicate else []
    return f" WHERE {' AND '.join(parts)}" if parts else ""


def _collate(scan: Scan, restriction: Restriction) -> str:
    """Compare by the column's collation if others differ, so that its index can be used."""
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


def _expression(scan: Scan, column: str, mark: str = AFTER_MARK) -> str:
    for output in scan.outputs:
        if output.name == column:
            sql = mark_times(output.scalar.sql, mark)
            return sql if bare_column(output.scalar) else f"({sql})"
    raise InternalError(f"the scan {scan.alias} has no column {column}")


class _Descriptions:
    """The words for the bounds of one read, each key found once."""

    def __init__(self) -> None:
        self._found: dict[int, str] = {}  # by the identity of the key

    def bounds(self, scan: Scan, bounds: tuple[Bound, ...]) -> str:
        return "; or ".join(self._bound(scan, bound) for bound in bounds)

    def _bound(self, scan: Scan, bound: Bound) -> str:
        return " and ".join(
            f"{_expression(scan, one.column)} between the values of {_describe_value(one)}"
            if isinstance(one, Between)
            else f"{_expression(scan, one.column)} in "
            + " or ".join(self._key(key) for key in one.keys)
            for one in bound
        )

    def _key(self, key: ChangedKeys | StoredKeys) -> str:
        if id(key) not in self._found:
            self._found[id(key)] = self._describe(key)
        return self._found[id(key)]

    def _describe(self, key: ChangedKeys | StoredKeys) -> str:
        check_time()
        expression = _expression(key.scan, key.column)
        if isinstance(key, ChangedKeys):
            return f"the changes of {_label(key.scan)} ({expression})"
        return f"{expression} of {_label(key.scan)} where {self._bound(key.scan, key.bound)}"


def _describe_value(between: Between) -> str:
    return f"{_expression(between.scan, between.value)} in the changes of {_label(between.scan)}"


def stage_keys(sql: str) -> set[tuple[str, str]]:
    """Return the stages and columns whose values the marks of a read ask for.

    >>> stage_keys("SELECT ':keys(a,b)' FROM t WHERE k = ANY (:keys(group_1,n))")
    {('group_1', 'n')}
    """
    return {(match["stage"], match["column"]) for match in find(sql, _KEYS_MARK)}


def fill_marks(sql: str, window: str, keys: Mapping[str, str], moments: Moments = PRESENT) -> str:
    """Replace the marks of a read by a condition, by array literals and by moments.

    >>> fill_marks("SELECT ':window' FROM b WHERE :window", "__xid > 7", {})
    "SELECT ':window' FROM b WHERE __xid > 7"
    """

    def value(match: re.Match[str]) -> str:
        mark = match.group()
        if mark in {BEFORE_MARK, AFTER_MARK}:
            return moments.at(mark)
        return window if mark == WINDOW_MARK else keys[mark]

    return fill(sql, rf"{WINDOW_MARK}\b|{_KEYS_MARK}|{TIME_MARKS}", value)
