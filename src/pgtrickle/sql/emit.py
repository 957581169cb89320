"""Plans as SQL text, in the dialect that runs them.

Every operator becomes one SELECT over its inputs.  Rows carry their weight in ``__weight``: a
join multiplies the weights of its sides, everything else passes them on.  A scan reads a relation
named after its alias and version; ``BEFORE`` of a table that stands at ``AFTER`` is written as
the table less its changes, by weights, and the other way round for the state of a stage.
"""

from __future__ import annotations

from typing import assert_never

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
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.translate import Dialect, quote_name, translate

WEIGHT = "__weight"
# Where joins and unions end.  In a small refresh the engine makes a hint of it, so that Spark
# knows that all rows are in one partition and exchanges nothing; otherwise it is a comment.
ONE_PARTITION = "/* one partition */"


def changes_view(scan: Scan) -> str:
    """Name the relation that holds a scan's changes."""
    return f"{scan.alias}__changes"


def rows_view(scan: Scan) -> str:
    """Name the relation that holds a scan's rows as they can be read."""
    return f"{scan.alias}__rows"


def stands_at(scan: Scan) -> Version:
    """Tell which version of a scan's source can be read as it is."""
    return Version.BEFORE if scan.source.kind is SourceKind.STATE else Version.AFTER


def emit(node: Node, dialect: Dialect) -> str:
    """Write a plan of weighted rows as one SELECT."""
    return _Emitter(dialect).select(node, 0)


class _Emitter:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._aliases = 0
        self._select = f"SELECT {ONE_PARTITION}" if dialect is Dialect.SPARK else "SELECT"

    def select(self, node: Node, depth: int) -> str:
        match node:
            case Scan():
                return self._scan(node, depth)
            case Filter():
                columns = self._columns(node.child)
                predicate = translate(node.predicate, _types(node.child), self._dialect)
                return self._lines(
                    depth,
                    f"SELECT {columns}",
                    f"FROM {self._input(node.child, depth)}",
                    f"WHERE {predicate}",
                )
            case Project():
                return self._lines(
                    depth,
                    f"SELECT {self._outputs(node)}",
                    f"FROM {self._input(node.child, depth)}",
                )
            case InnerJoin():
                return self._join(node, depth)
            case UnionAll():
                return self._union(node, depth)
            case Weigh():
                return self._weigh(node, depth)
            case Aggregate() | Recompute():
                raise ValueError("a stateful operator is emitted by its stage")
        assert_never(node)

    def _scan(self, scan: Scan, depth: int) -> str:
        rows, changes = self._relation(rows_view(scan)), self._relation(changes_view(scan))
        columns, weight = self._columns(scan, weight=False), self._name(WEIGHT)
        listed = f"{columns}, " if columns else ""
        if scan.version is Version.CHANGES:
            return self._lines(depth, f"SELECT {listed}{weight}", f"FROM {changes}")
        plain = f"SELECT {listed}1 AS {weight} FROM {rows}"
        if scan.version is stands_at(scan):
            return self._lines(depth, plain)
        sign = "-" if scan.version is Version.BEFORE else "+"
        return self._lines(
            depth,
            f"{self._select} {listed}{weight} FROM (",
            f"  {plain}",
            "  UNION ALL",
            f"  SELECT {listed}{sign}{weight} AS {weight} FROM {changes}",
            f") AS {self._alias()}",
        )

    def _weigh(self, node: Weigh, depth: int) -> str:
        names = [self._name(column.name) for column in columns_of(node)]
        weight = self._name(WEIGHT)
        factor = translate(node.factor, _types(node.child), self._dialect)
        listed = ", ".join([*names, f"{weight} * {factor} AS {weight}"])
        return self._lines(depth, f"SELECT {listed}", f"FROM {self._input(node.child, depth)}")

    def _join(self, join: InnerJoin, depth: int) -> str:
        left, right = self._alias(), self._alias()
        names = [
            f"{side}.{self._name(column.name)}"
            for side, node in ((left, join.left), (right, join.right))
            for column in columns_of(node)
        ]
        weight = self._name(WEIGHT)
        names.append(f"{left}.{weight} * {right}.{weight} AS {weight}")
        condition = (
            translate(join.on, _types(join), self._dialect) if join.on is not None else "TRUE"
        )
        return self._lines(
            depth,
            f"{self._select} {', '.join(names)}",
            f"FROM {self._nested(join.left, depth)} AS {left}",
            f"JOIN {self._nested(join.right, depth)} AS {right}",
            f"ON {condition}",
        )

    def _union(self, union: UnionAll, depth: int) -> str:
        names = self._columns(union)
        parts = [
            self._lines(depth + 1, f"SELECT {names}", f"FROM {self._input(child, depth + 1)}")
            for child in union.children
        ]
        together = f"\n{'  ' * (depth + 1)}UNION ALL\n".join(parts)
        top = self._lines(depth, f"{self._select} {names} FROM (")
        return f"{top}\n{together}\n{self._lines(depth, f') AS {self._alias()}')}"

    def _outputs(self, node: Project) -> str:
        types = _types(node.child)
        parts = [
            f"{translate(output.scalar, types, self._dialect)} AS {self._name(output.name)}"
            for output in node.outputs
        ]
        return ", ".join([*parts, self._name(WEIGHT)])

    def _input(self, node: Node, depth: int) -> str:
        return f"{self._nested(node, depth)} AS {self._alias()}"

    def _nested(self, node: Node, depth: int) -> str:
        return f"(\n{self.select(node, depth + 1)}\n{'  ' * depth})"

    def _columns(self, node: Node, *, weight: bool = True) -> str:
        names = [self._name(column.name) for column in columns_of(node)]
        return ", ".join([*names, *([self._name(WEIGHT)] if weight else [])])

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    def _name(self, name: str) -> str:
        return quote_name(name, self._dialect)

    def _relation(self, name: str) -> str:
        # Spark's views belong to a whole session: braces mark where a run puts names of its own.
        return f"{{{name}}}" if self._dialect is Dialect.SPARK else self._name(name)

    def _lines(self, depth: int, *lines: str) -> str:
        return "\n".join("  " * depth + line for line in lines)


def _types(node: Node) -> dict[str, SqlType]:
    return {column.name: column.type for column in columns_of(node)}
