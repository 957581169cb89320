"""From which columns of which tables each column of a query comes, and which decide its rows.

Names are unique over a plan, so a name below an operator says where a value comes from.  The answer
is never too small; of a recomputed operator, such as a window, a new column comes from all of
its input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Output,
    Project,
    Query,
    Recompute,
    Scalar,
    Scan,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.text.names import QualifiedName


class Derivation(Enum):
    """How a value was made from another, or decides whether a row is there."""

    IDENTITY = "IDENTITY"
    TRANSFORMATION = "TRANSFORMATION"
    AGGREGATION = "AGGREGATION"
    FILTER = "FILTER"
    JOIN = "JOIN"
    GROUP_BY = "GROUP_BY"


_DIRECT = (Derivation.IDENTITY, Derivation.TRANSFORMATION, Derivation.AGGREGATION)


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A column of a table."""

    table: QualifiedName
    column: str


Origins = Mapping[Origin, Derivation]


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where the columns of a query come from."""

    columns: Mapping[str, Origins]
    deciding: frozenset[tuple[Origin, Derivation]]  # which rows there are


@dataclass(slots=True)
class _Walk:
    deciding: set[tuple[Origin, Derivation]] = field(default_factory=set)

    def of(self, node: Node) -> dict[str, Origins]:
        """Return the origins of each column of an operator."""
        match node:
            case Scan():
                return self._of_scan(node)
            case Filter(child, predicate):
                return self._decided(self.of(child), predicate.columns, Derivation.FILTER)
            case Weigh(child, factor):
                return self._decided(self.of(child), factor.columns, Derivation.FILTER)
            case Project(child, outputs):
                below = self.of(child)
                return {one.name: _computed(one, below) for one in outputs}
            case InnerJoin(left, right, on):
                both = {**self.of(left), **self.of(right)}
                return self._decided(both, on.columns if on else (), Derivation.JOIN)
            case UnionAll(children):
                found: dict[str, Origins] = {}
                for branch in map(self.of, children):
                    for name, origins in branch.items():
                        found[name] = _merged([found.get(name, {}), origins])
                return found
            case Aggregate():
                return self._of_aggregate(node)
            case Recompute(child, keys):
                return self._of_recompute(node, self.of(child), [one.name for one in keys])
            case _:
                assert_never(node)

    def _of_scan(self, scan: Scan) -> dict[str, Origins]:
        table = scan.source.relation
        own: dict[str, Origins] = {}
        if table is not None:
            read = {name for one in scan.outputs for name in one.scalar.columns}
            read |= set(scan.predicate.columns if scan.predicate else ())
            own = {name: {Origin(table, name): Derivation.IDENTITY} for name in read}
        if scan.predicate is not None:
            self._decided(own, scan.predicate.columns, Derivation.FILTER)
        return {one.name: _computed(one, own) for one in scan.outputs}

    def _of_aggregate(self, node: Aggregate) -> dict[str, Origins]:
        below = self.of(node.child)
        keys = [one.name for one in node.keys]
        self._decided(below, keys, Derivation.GROUP_BY)
        found = {name: below.get(name, {}) for name in keys}
        for call in node.calls:
            names = [one.name for one in call.arguments]
            names += [call.condition] if call.condition else []
            found[call.name] = _made(Derivation.AGGREGATION, names, below)
        return found

    def _of_recompute(
        self, node: Recompute, below: dict[str, Origins], keys: Iterable[str]
    ) -> dict[str, Origins]:
        self._decided(below, keys, Derivation.GROUP_BY)
        everything = [one.name for one in columns_of(node.child)]
        anything = _made(Derivation.TRANSFORMATION, everything, below)
        return {one.name: below.get(one.name, anything) for one in node.outputs}

    def _decided(
        self, below: dict[str, Origins], names: Iterable[str], how: Derivation
    ) -> dict[str, Origins]:
        self.deciding |= {(origin, how) for name in names for origin in below.get(name, {})}
        return below


def trace_columns(query: Query) -> Lineage:
    """Return from where the columns of a query come."""
    walk = _Walk()
    below = walk.of(query.node)
    columns = {one.name: _computed(one, below) for one in query.outputs}
    return Lineage(columns, frozenset(walk.deciding))


def _computed(output: Output, below: Mapping[str, Origins]) -> Origins:
    if _is_bare(output.scalar):
        return below.get(output.scalar.columns[0], {})
    return _made(Derivation.TRANSFORMATION, output.scalar.columns, below)


def _is_bare(scalar: Scalar) -> bool:
    """Tell whether an expression is a column, and nothing else."""
    return len(scalar.columns) == 1 and scalar.sql == _quoted(scalar.columns[0])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _made(how: Derivation, names: Iterable[str], below: Mapping[str, Origins]) -> Origins:
    """Return the origins of a value that is computed from columns."""
    return _merged(
        [
            {origin: max(how, before, key=_DIRECT.index)}
            for name in names
            for origin, before in below.get(name, {}).items()
        ]
    )


def _merged(found: Iterable[Origins]) -> Origins:
    merged: dict[Origin, Derivation] = {}
    for one in found:
        for origin, how in one.items():
            merged[origin] = max(how, merged.get(origin, how), key=_DIRECT.index)
    return merged
