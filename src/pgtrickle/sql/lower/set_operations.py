"""UNION, INTERSECT and EXCEPT, with and without ALL.

A ∩ B      =  rows with a > 0 and b > 0           a, b: how often a row occurs on each side
A − B      =  rows with a > 0 and b = 0
A ∩ALL B   =  least(a, b) · rows
A −ALL B   =  greatest(a − b, 0) · rows
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from pgtrickle.algebra.nodes import Node, Output, Project, UnionAll, Weigh
from pgtrickle.sql.lower.count_sides import CountedSides, count_sides
from pgtrickle.sql.lower.half_built import Block, Compiler, Rows
from pgtrickle.sql.lower.query_end import distinct_rows
from pgtrickle.sql.scalars import column_scalar, make_scalar, parse_scalar, substitute
from pgtrickle.sql.scope import cast, typed_column


def lower_set_operation(compiler: Compiler, query: exp.SetOperation, sides: Sequence[Rows]) -> Rows:
    """Combine the rows of two queries."""
    every = not query.args.get("distinct")
    if isinstance(query, exp.Union):
        rows = union_all(compiler, sides)
        return rows if every else distinct_rows(compiler, rows)
    intersect = isinstance(query, exp.Intersect)
    left, right = common_columns(compiler, sides)
    counted = count_sides(compiler.columns, left, right, shows_left=not intersect)
    if every:
        node: Node = Weigh(counted.node, make_scalar(parse_scalar(_number(counted, intersect))))
        block = Block([node])
    else:
        block = Block([counted.node], counted.rows("> 0" if intersect else "= 0"))
    return _shown(sides[0], left, block)


def _number(counted: CountedSides, intersect: bool) -> str:  # noqa: FBT001 - read at the one call
    left, right = column_scalar(counted.left).sql, column_scalar(counted.right).sql
    if intersect:
        return f"LEAST({left}, {right})"
    return f"GREATEST({left} - {right}, 0)"


def union_all(compiler: Compiler, branches: Sequence[Rows]) -> Rows:
    """Unite the rows of several queries."""
    projected = common_columns(compiler, branches)
    node = UnionAll(_flatten(projected))
    compiler.columns.remember(node)
    return _shown(branches[0], projected[0], Block([node]))


def common_columns(compiler: Compiler, branches: Sequence[Rows]) -> list[Project]:
    """Give the branches of a set operation the same columns, the carried ones first."""
    lists = [[*(("outer", one) for one in branch.carried), *branch.columns] for branch in branches]
    types = compiler.columns.union_types([[typed for _, typed in one] for one in lists])
    names = [compiler.columns.fresh(name) for name, _ in lists[0]]
    return [
        Project(
            branch.block.build(),
            tuple(
                Output(name, cast(typed, type_), type_)
                for name, (_, typed), type_ in zip(names, listed, types, strict=True)
            ),
        )
        for branch, listed in zip(branches, lists, strict=True)
    ]


def _shown(first: Rows, projected: Project, block: Block) -> Rows:
    """Show the columns of a combined input under the names of its first branch."""
    outer = len(first.carried)
    typed = [typed_column(one) for one in projected.outputs]
    columns = tuple(
        (name, one) for (name, _), one in zip(first.columns, typed[outer:], strict=True)
    )
    return Rows(block, columns, tuple(typed[:outer]))


def _flatten(children: Sequence[Project]) -> tuple[Node, ...]:
    """Dissolve a union directly inside a union; the outer projection only renames."""
    flat: list[Node] = []
    for child in children:
        if isinstance(child.child, UnionAll):
            flat += [_renamed(inner, child.outputs) for inner in child.child.children]
        else:
            flat.append(child)
    return tuple(flat)


def _renamed(branch: Node, outputs: tuple[Output, ...]) -> Project:
    """Project a branch, through its own projection where it has one."""
    if not isinstance(branch, Project):
        return Project(branch, outputs)
    own = {one.name: one.scalar for one in branch.outputs}
    return Project(
        branch.child,
        tuple(Output(one.name, substitute(one.scalar, own), one.type) for one in outputs),
    )
