"""Give every scan of a plan its own alias and column names.

An input may occur several times in one plan: the outer rows of a join and of the count of
their partners, the keys of a subquery and of its empty answers.  Filters and expressions are
pushed into each occurrence separately, so the occurrences must not share a scan.

    T ⋈[a = b] π[b ← a](T)   becomes   T ⋈[a = b] π[b ← a₂](T₂)
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Output,
    Project,
    Recompute,
    Scalar,
    Scan,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.schema import children_of, column_names, columns_of, scans_of
from pgtrickle.sql.scalars import column_scalar, substitute


def separate_scans(node: Node) -> Node:
    """Return an equal plan in which no two scans share an alias or a column name."""
    scans = list(scans_of(node))
    if len({scan.alias for scan in scans}) == len(scans):
        return node
    separation = _Separation({scan.alias for scan in scans}, _names_in(node))
    return _named_back(node, *separation.visit(node))


_Renamed = dict[str, str]  # old name -> new name, of the columns that a node yields


class _Separation:
    def __init__(self, aliases: set[str], names: set[str]) -> None:
        self._aliases = aliases
        self._names = names
        self._seen: set[str] = set()

    def visit(self, node: Node) -> tuple[Node, _Renamed]:
        match node:
            case Scan():
                return self._scan(node)
            case Filter():
                child, renamed = self.visit(node.child)
                return Filter(child, _rename(node.predicate, renamed)), renamed
            case Weigh():
                child, renamed = self.visit(node.child)
                return Weigh(child, _rename(node.factor, renamed)), renamed
            case Project():
                return self._project(node)
            case InnerJoin():
                left, of_left = self.visit(node.left)
                right, of_right = self.visit(node.right)
                renamed = of_left | of_right
                return InnerJoin(left, right, node.on and _rename(node.on, renamed)), renamed
            case UnionAll():
                children = (_named_back(child, *self.visit(child)) for child in node.children)
                return UnionAll(tuple(children)), {}
            case Aggregate() | Recompute():
                raise ValueError("a plan is cut at its stateful operators before")
        assert_never(node)

    def _scan(self, scan: Scan) -> tuple[Node, _Renamed]:
        if scan.alias not in self._seen:
            self._seen.add(scan.alias)
            return scan, {}
        renamed = {one.name: _fresh(one.name, self._names) for one in scan.outputs}
        outputs = tuple(replace(one, name=renamed[one.name]) for one in scan.outputs)
        alias = _fresh(scan.alias, self._aliases)
        return replace(scan, alias=alias, outputs=outputs), renamed

    def _project(self, node: Project) -> tuple[Node, _Renamed]:
        """Rename the columns that a projection reads or passes on under their old names."""
        child, below = self.visit(node.child)
        outputs = tuple(
            Output(below.get(one.name, one.name), _rename(one.scalar, below), one.type)
            for one in node.outputs
        )
        handed_on = {one.name: below[one.name] for one in node.outputs if one.name in below}
        return Project(child, outputs), handed_on


def _names_in(node: Node) -> set[str]:
    """Return the names of all columns of a plan, not only of those that it yields."""
    below = (_names_in(child) for child in children_of(node))
    return set(column_names(node)).union(*below)


def _rename(scalar: Scalar, renamed: _Renamed) -> Scalar:
    return substitute(scalar, {old: column_scalar(new) for old, new in renamed.items()})


def _named_back(original: Node, node: Node, renamed: _Renamed) -> Node:
    """Give a node the column names that it had before."""
    if not renamed:
        return node
    return Project(
        node,
        tuple(
            Output(column.name, column_scalar(renamed.get(column.name, column.name)), column.type)
            for column in columns_of(original)
        ),
    )


def _fresh(name: str, taken: set[str]) -> str:
    number = 2
    while (wanted := f"{name}_{number}") in taken:
        number += 1
    taken.add(wanted)
    return wanted
