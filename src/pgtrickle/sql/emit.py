"""Plans as SQL text, in the dialect that runs them.

Rows carry their weight in ``__weight``: a join multiplies the weights of its sides, other operators
pass them on.  A scan reads a relation named after its alias and version; ``BEFORE`` of a
table that stands at ``AFTER`` is a relation too: the table less its changes, by weights, and the
other way round for the state of a stage (see ``other_versions``).

Over rows of ``BOTH`` versions, everything is written with two weights, and the change
is the second weight less the first.

A chain of joins with the filter and the projection above it is one SELECT: names are unique over a
plan, so nothing needs renaming, and an engine plans a flat query much faster than a nested one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

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
    Version,
    Weigh,
)
from pgtrickle.algebra.schema import columns_of, scans_of
from pgtrickle.model.compile_steps import step
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.sql.null_safe_joins import hashable_join
from pgtrickle.sql.scalars import pass_on
from pgtrickle.sql.text.placeholders import fill
from pgtrickle.sql.translate import Dialect, quote_name, translate

WEIGHT = "__weight"
# The count of a row before and after, if one relation holds both versions.
WEIGHT_BEFORE, WEIGHT_AFTER = "__before", "__after"
# Where joins and unions end.  In a small refresh the engine makes a hint of it, so that Spark
# knows that all rows are in one partition and exchanges nothing; otherwise it is a comment.
ONE_PARTITION = "/* one partition */"


def changes_view(scan: Scan) -> str:
    """Name the relation that holds a scan's changes."""
    return f"{scan.alias}__changes"


def rows_view(scan: Scan) -> str:
    """Name the relation that holds a scan's rows in the version that can be read directly."""
    return f"{scan.alias}__rows"


def other_view(scan: Scan) -> str:
    """Name the relation that holds a scan's rows in the version that must be computed."""
    return f"{scan.alias}__{'after' if stands_at(scan) is Version.BEFORE else 'before'}"


def both_view(scan: Scan) -> str:
    """Name the relation that holds a scan's rows in both versions."""
    return f"{scan.alias}__both"


def relation_of(scan: Scan) -> str:
    """Name the relation that holds the rows of a scan."""
    if scan.version is Version.CHANGES:
        return changes_view(scan)
    if scan.version is Version.BOTH:
        return both_view(scan)
    return rows_view(scan) if scan.version is stands_at(scan) else other_view(scan)


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """The version of a scan that follows from its rows and its changes."""

    view: str
    rows: str
    changes: str
    sign: int  # of the changes
    columns: tuple[str, ...]
    sql: str  # that computes it from the other two, in the engine's dialect


def other_versions(node: Node, dialect: Dialect) -> tuple[OtherVersion, ...]:
    """Return the relations that a plan names in addition to those that are read."""
    found: dict[str, OtherVersion] = {}
    emitter = _Emitter(dialect)
    for scan in scans_of(node):
        if scan.version not in {Version.CHANGES, Version.BOTH, stands_at(scan)}:
            found.setdefault(other_view(scan), emitter.other_version(scan))
    return tuple(found.values())


def stands_at(scan: Scan) -> Version:
    """Return the version of a scan's source that can be read directly."""
    stored = scan.source.kind is SourceKind.STATE and not scan.source.merged
    return Version.BEFORE if stored else Version.AFTER


def emit(node: Node, dialect: Dialect) -> str:
    """Write a plan of weighted rows as one SELECT."""
    if any(scan.version is Version.BOTH for scan in scans_of(node)):
        return _Emitter(dialect, (WEIGHT_BEFORE, WEIGHT_AFTER)).difference(node)
    return _Emitter(dialect).text(node, 0)


# How many digits the values of a numeric column show: a number, or the column that tells it.
Digits: TypeAlias = Mapping[str, int | str]


def emit_shown(node: Node, columns: Sequence[str], digits: Digits, dialect: Dialect) -> str:
    """Write a plan of weighted rows as one SELECT of some columns, each with its own digits."""
    text = emit(node, dialect)
    if not digits:
        return text
    shown = [
        f"{with_digits(name, digits, dialect)} AS {quote_name(name, dialect)}" for name in columns
    ]
    listed = ", ".join([*shown, quote_name(WEIGHT, dialect)])
    return f"SELECT {listed}\nFROM (\n{text}\n) AS plain"


def with_digits(name: str, digits: Digits, dialect: Dialect) -> str:
    """Write a decimal as a text with the digits after the point that its value shows."""
    column = quote_name(name, dialect)
    if name not in digits or dialect is Dialect.POSTGRES:
        return column
    scale, text = (
        digits[name],
        f"CAST({column} AS {'STRING' if dialect is Dialect.SPARK else 'VARCHAR'})",
    )
    number = str(scale) if isinstance(scale, int) else quote_name(scale, dialect)
    whole, fraction = (f"split_part({text}, '.', {part})" for part in (1, 2))
    return (
        f"CASE WHEN {number} > 0 THEN {whole} || '.' || rpad({fraction}, {number}, '0')"
        f" ELSE {whole} END"
    )


def substitute(sql: str, relations: Mapping[str, str]) -> str:
    """Put each input's relation in place of its ``{name}``; other braces stay.

    >>> substitute("SELECT '{o}', a FROM {o}", {"o": "v1"})
    "SELECT '{o}', a FROM v1"
    """
    if not relations:
        return sql
    names = "|".join(re.escape(name) for name in relations)
    return fill(
        sql, rf"\{{(?P<input>{names})\}}", lambda match: relations[match["input"]], spark=True
    )


@dataclass(frozen=True, slots=True)
class _Select:
    """A SELECT under construction."""

    columns: tuple[str, ...]  # as they are listed, the weight not among them
    weighted: tuple[str, ...]  # aliases whose weights are multiplied; if empty, a row counts once
    source: str  # the text after FROM
    factors: tuple[str, ...] = ()  # further factors of the weights
    where: str = ""
    joins: bool = False  # or unites

    def weight(self, name: str) -> str:
        """Write a weight of the rows: the product of those by that name."""
        return " * ".join([*(f"{one}.{name}" for one in self.weighted), *self.factors]) or "1"


class _Emitter:
    def __init__(self, dialect: Dialect, weights: tuple[str, ...] = (WEIGHT,)) -> None:
        self._dialect = dialect
        self._aliases = 0
        self._weight = quote_name(WEIGHT, dialect)
        self._weights = tuple(quote_name(name, dialect) for name in weights)
        # By identity: a plan lists the columns of an operator at every level above it.
        self._known: dict[int, tuple[Node, tuple[Column, ...]]] = {}
        self._computed: dict[int, tuple[Project, tuple[str, ...]]] = {}

    def difference(self, node: Node) -> str:
        """Write a node that has both weights as a SELECT of its columns and their difference."""
        before, after = self._weights
        columns = ", ".join([*self._columns(node), f"{after} - {before} AS {self._weight}"])
        text = self.text(node, 1)
        return f"SELECT {columns}\nFROM (\n{text}\n) AS paired\nWHERE {after} <> {before}"

    def text(self, node: Node, depth: int) -> str:
        """Write a node as a SELECT of its columns and the weights."""
        step()
        select = self._select(node, depth)
        weights = [f"{select.weight(name)} AS {name}" for name in self._weights]
        columns = ", ".join([*select.columns, *weights])
        hint = f"{ONE_PARTITION} " if select.joins and self._dialect is Dialect.SPARK else ""
        lines = [f"SELECT {hint}{columns}", f"FROM {select.source}"]
        if select.where:
            lines.append(f"WHERE {select.where}")
        return "\n".join("  " * depth + line for line in lines)

    def _select(self, node: Node, depth: int) -> _Select:
        match node:
            case Scan():
                return self._scan(node)
            case Filter():
                child = self._child(node.child, depth, filtered=False)
                predicate = translate(node.predicate, self._types(node.child), self._dialect)
                return replace(child, where=predicate)
            case Project():
                child = self._child(node.child, depth, filtered=True)
                return replace(child, columns=self._outputs(node))
            case Weigh():
                child = self._child(node.child, depth, filtered=True)
                factor = translate(node.factor, self._types(node.child), self._dialect)
                return replace(child, factors=(*child.factors, factor))
            case InnerJoin():
                return self._join(node, depth)
            case UnionAll():
                return self._union(node, depth)
            case Aggregate() | Recompute():
                raise ValueError("a stateful operator is emitted by its stage")
        assert_never(node)

    def _child(self, node: Node, depth: int, *, filtered: bool) -> _Select:
        """Return the SELECT of an input, in parentheses if the next operator needs them.

        ``filtered`` says that the next operator may share one SELECT with a filter below it.
        """
        if isinstance(node, Project) or (not filtered and _is_filtered(node)):
            return self._nested(node, depth)
        return self._select(node, depth)

    def _nested(self, node: Node, depth: int) -> _Select:
        """Return a SELECT over a node that stands in parentheses."""
        alias = self._alias()
        text = f"(\n{self.text(node, depth + 1)}\n{'  ' * depth}) AS {alias}"
        return _Select(self._columns(node), (alias,), text)

    def other_version(self, scan: Scan) -> OtherVersion:
        """Describe the rows of a scan with its changes taken back, or added."""
        rows, changes = self._relation(rows_view(scan)), self._relation(changes_view(scan))
        sign = -1 if scan.version is Version.BEFORE else 1
        listed = "".join(f"{column}, " for column in self._columns(scan))
        # Of one type in both arms: PostgreSQL then looks into each of them by index.
        one = "1::int8" if self._dialect is Dialect.POSTGRES else "1"
        sql = (
            f"SELECT {listed}{one} AS {self._weight} FROM {rows} UNION ALL "
            f"SELECT {listed}{'-' if sign < 0 else ''}{self._weight} AS {self._weight}"
            f" FROM {changes}"
        )
        columns = tuple(column.name for column in columns_of(scan))
        return OtherVersion(
            other_view(scan), rows_view(scan), changes_view(scan), sign, columns, sql
        )

    def _scan(self, scan: Scan) -> _Select:
        columns, alias = self._columns(scan), self._alias()
        weighted = () if scan.version is stands_at(scan) else (alias,)
        return _Select(columns, weighted, f"{self._relation(relation_of(scan))} AS {alias}")

    def _join(self, join: InnerJoin, depth: int) -> _Select:
        # Spark is told after each join that all rows are in one partition still, so there a join
        # stands in parentheses.
        chain = isinstance(join.left, InnerJoin) and self._dialect is not Dialect.SPARK
        left = self._select(join.left, depth) if chain else self._side(join.left, depth)
        right = self._side(join.right, depth)
        condition = self._condition(join)
        source = f"{left.source}\n{'  ' * depth}JOIN {right.source} ON {condition}"
        return _Select(
            (*left.columns, *right.columns),
            (*left.weighted, *right.weighted),
            source,
            factors=(*left.factors, *right.factors),
            joins=True,
        )

    def _condition(self, join: InnerJoin) -> str:
        if join.on is None:
            return "TRUE"
        if self._dialect is Dialect.POSTGRES:
            return hashable_join(join.on, self._types(join))
        return translate(join.on, self._types(join), self._dialect)

    def _side(self, node: Node, depth: int) -> _Select:
        """Return one side of a join: a bare relation, or anything else in parentheses."""
        if isinstance(node, Scan):
            return self._select(node, depth)
        return self._nested(node, depth)

    def _union(self, union: UnionAll, depth: int) -> _Select:
        columns = self._columns(union)
        arms = [
            self.text(child, depth + 1)
            if self._columns(child) == columns
            else self.text(Project(child, tuple(map(pass_on, columns_of(union)))), depth + 1)
            for child in union.children
        ]
        pad = "  " * (depth + 1)
        together = f"\n{pad}UNION ALL\n".join(arms)
        alias = self._alias()
        text = f"(\n{together}\n{'  ' * depth}) AS {alias}"
        return _Select(columns, (alias,), text, joins=True)

    def _outputs(self, node: Project) -> tuple[str, ...]:
        if id(node) not in self._computed:
            types = self._types(node.child)
            outputs = tuple(
                f"{translate(output.scalar, types, self._dialect)} AS {self._name(output.name)}"
                for output in node.outputs
            )
            self._computed[id(node)] = node, outputs
        return self._computed[id(node)][1]

    def _columns(self, node: Node) -> tuple[str, ...]:
        return tuple(self._name(column.name) for column in self._columns_of(node))

    def _columns_of(self, node: Node) -> tuple[Column, ...]:
        if id(node) not in self._known:
            columns = (
                self._columns_of(node.left) + self._columns_of(node.right)
                if isinstance(node, InnerJoin)
                else columns_of(node)
            )
            self._known[id(node)] = node, columns
        return self._known[id(node)][1]

    def _types(self, node: Node) -> dict[str, SqlType]:
        return {column.name: column.type for column in self._columns_of(node)}

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    def _name(self, name: str) -> str:
        return quote_name(name, self._dialect)

    def _relation(self, name: str) -> str:
        # Spark's views belong to a whole session: braces mark where a run puts names of its own.
        return f"{{{name}}}" if self._dialect is Dialect.SPARK else self._name(name)


def _is_filtered(node: Node) -> bool:
    """Tell whether the SELECT of a node has a WHERE."""
    return isinstance(node, Filter) or (isinstance(node, Weigh) and _is_filtered(node.child))
