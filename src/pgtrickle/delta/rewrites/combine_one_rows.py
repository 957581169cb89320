"""Compute many relations of one row each as one relation.

    ((T ⋈ γ[a](Q₁)) ⋈ γ[b](Q₂)) ⋈ ...   becomes   T ⋈ γ[a, b, ...](Q₁ + Q₂ + ...)

An aggregate without keys has one row: a scalar subquery, EXISTS without outer values, a derived
table of totals.  The derivation of a join has a term for each changed input, and each term joins
all the others, so n such relations make n² joins; and a version that is computed from rows and
changes holds up to three weighted rows for its one row, so these joins make 3ⁿ rows for each row
of T.  One aggregate over the UNION ALL of their inputs changes by the sum of the changes, in one
stage, and leaves one join.

A branch marks its rows as its own; the calls of a branch count only those.  The rows that several
calls read by the same conditions are one branch.  A result that PostgreSQL must look up in all its
stored values stays an aggregate of its own, so that changes elsewhere do not look it up again: its
value is then the branch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pgtrickle.algebra.nodes import (
    Aggregate,
    AggregateCall,
    Filter,
    InnerJoin,
    Node,
    Output,
    Project,
    Scalar,
    Scan,
    UnionAll,
)
from pgtrickle.algebra.schema import columns_of
from pgtrickle.delta.layout import layout_of
from pgtrickle.model.sql_type import BOOLEAN, Column
from pgtrickle.sql.scalars import bare_column, column_scalar, null_scalar, pass_on, substitute

# Fewer are joined as they are: a comparison with one of them may then bound a read by its range.
_MANY = 4
# Results that cost one look into the stored values, or none.
_FOUND_AT_ONCE = frozenset({"count", "sum", "avg", "min", "max", "only_value"})


def combine_one_rows(node: InnerJoin) -> Node:
    """Return an equal plan in which the relations of one row along a chain of joins are one."""
    above: list[InnerJoin | Filter] = []  # what remains of the chain, from the top
    passed: list[InnerJoin | Filter] = []
    ones: list[Aggregate] = []
    base: Node = node
    current: Node = node
    while isinstance(current, InnerJoin | Filter):
        if isinstance(current, Filter):
            passed.append(current)
            current = current.child
        elif found := _one_rows(current.right):
            ones = found + ones
            above += passed
            above += [Filter(current, current.on)] if current.on else []
            passed = []
            base = current = current.left
        else:
            passed.append(current)
            current = current.left
    whole = _one_rows(base)
    if len(whole) + len(ones) < _MANY:
        return node
    combined = _combined(whole + ones)
    tree: Node = combined if whole else InnerJoin(base, combined, None)
    for one in reversed(above):
        tree = replace(one, left=tree) if isinstance(one, InnerJoin) else replace(one, child=tree)
    return tree


def _one_rows(node: Node) -> list[Aggregate]:
    """Return the aggregates of one row whose product is ``node``; none if it is anything else."""
    if isinstance(node, Project):
        return _renamed_calls(node)
    if isinstance(node, Aggregate):
        return [node] if node.calls and not node.keys else []
    if isinstance(node, InnerJoin) and node.on is None:
        left = _one_rows(node.left)
        right = _one_rows(node.right) if left else []
        return left + right if right else []
    return []


def _renamed_calls(node: Project) -> list[Aggregate]:
    """Return the aggregate of one row of which a projection only renames results."""
    names = {bare_column(output.scalar): output.name for output in node.outputs}
    if not isinstance(node.child, Aggregate) or None in names:
        return []
    calls = tuple(
        replace(call, name=names[call.name]) for call in node.child.calls if call.name in names
    )
    return _one_rows(replace(node.child, calls=calls))


@dataclass(slots=True)
class _Branch:
    """Rows for some calls, and the arguments of these."""

    rows: Node
    present: str  # the column that marks the rows
    arguments: dict[str, Output] = field(default_factory=dict)


def _combined(ones: Sequence[Aggregate]) -> Aggregate:
    branches: list[_Branch] = []
    calls: list[AggregateCall] = []
    for one in map(_found_at_once, ones):
        branch, arguments = _branch_for(one, branches)
        branch.arguments |= {output.name: output for output in arguments}
        calls += [replace(call, condition=call.condition or branch.present) for call in one.calls]
    children = tuple(_with_columns(branch, branches) for branch in branches)
    return Aggregate(children[0] if len(children) == 1 else UnionAll(children), (), tuple(calls))


def _found_at_once(one: Aggregate) -> Aggregate:
    """Return an aggregate whose results may be computed anew at each change of any of them."""
    lookups = {result.name for result in layout_of(one).looked_up}
    if all(call.name not in lookups or call.function in _FOUND_AT_ONCE for call in one.calls):
        return one
    outputs = tuple(
        Output(f"{column.name}__one", column_scalar(column.name), column.type)
        for column in columns_of(one)
    )
    calls = tuple(
        _only_value(column, output.column)
        for column, output in zip(columns_of(one), outputs, strict=True)
    )
    return Aggregate(Project(one, outputs), (), calls)


def _only_value(column: Column, argument: Column) -> AggregateCall:
    return AggregateCall(
        column.name,
        "only_value",
        column_scalar(argument.name).sql,
        (argument,),
        condition=None,
        whole=True,
        plain=True,
        distinct=False,
        type=column.type,
    )


def _branch_for(one: Aggregate, branches: list[_Branch]) -> tuple[_Branch, tuple[Output, ...]]:
    """Find the branch that has the rows of an aggregate, or add it; return its arguments there."""
    child = one.child
    rows, outputs = (
        (child.child, child.outputs)
        if isinstance(child, Project)
        else (child, tuple(map(pass_on, columns_of(child))))
    )
    for branch in branches:
        renamed = _same_rows(rows, branch.rows)
        if renamed is not None:
            found = tuple(
                replace(output, scalar=substitute(output.scalar, renamed)) for output in outputs
            )
            return branch, found
    branches.append(_Branch(rows, f"{one.calls[0].name}__present"))
    return branches[-1], outputs


def _same_rows(rows: Node, known: Node) -> dict[str, Scalar] | None:
    """Return what the columns of ``rows`` are called in ``known``; None if the rows may differ."""
    if isinstance(rows, Filter) and isinstance(known, Filter):
        renamed = _same_rows(rows.child, known.child)
        same = renamed is not None and substitute(rows.predicate, renamed) == known.predicate
        return renamed if same else None
    if (
        not isinstance(rows, Scan)
        or not isinstance(known, Scan)
        or (rows.source, rows.predicate) != (known.source, known.predicate)
    ):
        return None
    names = {output.scalar: output.name for output in known.outputs}
    if any(output.scalar not in names for output in rows.outputs):
        return None
    return {output.name: column_scalar(names[output.scalar]) for output in rows.outputs}


def _with_columns(branch: _Branch, branches: Sequence[_Branch]) -> Project:
    """Give the rows of a branch the columns of all branches."""
    return Project(branch.rows, tuple(_columns(branch, branches)))


def _columns(branch: _Branch, branches: Sequence[_Branch]) -> Iterator[Output]:
    for one in branches:
        for output in one.arguments.values():
            yield output if one is branch else replace(output, scalar=null_scalar(output.type))
        yield Output(one.present, Scalar("TRUE" if one is branch else "FALSE"), BOOLEAN)
