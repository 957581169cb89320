"""Carry the digits of numerics through an engine whose decimals have one scale per column.

    π[a + b](s × t)   becomes   π[a + b, greatest(a_scale, b_scale)](s × t)

Each scan reads the scale of its numerics in PostgreSQL, and a projection computes the scale of its
results from them, by PostgreSQL's rules.  So the text of a value can be written with its own digits
when it leaves the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import assert_never

from sqlglot import exp

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
from pgtrickle.algebra.schema import children_of, column_names, columns_of
from pgtrickle.model.sql_type import INTEGER
from pgtrickle.sql.scalars import bare_column, make_scalar, null_scalar, parse_scalar
from pgtrickle.sql.scales import NOTHING, declared_scale, fixed, scale_of


def fixed_scales(node: Node, known: Mapping[str, int]) -> dict[str, int]:
    """Return the digits of the numeric columns of a plan that show the same in every row.

    ``known`` has those of the results of earlier stages.
    """
    match node:
        case Scan():
            found = {one.name: _of_source(one, known) for one in node.outputs}
            return {name: scale for name, scale in found.items() if scale is not None}
        case Filter() | Weigh():
            return fixed_scales(node.child, known)
        case InnerJoin():
            return fixed_scales(node.left, known) | fixed_scales(node.right, known)
        case Project():
            below = fixed_scales(node.child, known)
            types = {column.name: column.type for column in columns_of(node.child)}

            def literal(name: str) -> exp.Expr | None:
                if below.get(name) == NOTHING:
                    return exp.null()
                return exp.Literal.number(below[name]) if name in below else None

            found = {
                one.name: fixed(scale_of(parse_scalar(one.scalar.sql), types, literal))
                for one in node.outputs
                if one.type.base == "numeric"
            }
            return {name: scale for name, scale in found.items() if scale is not None}
        case UnionAll():
            arms = [fixed_scales(child, known) for child in node.children]
            both = {name: {arm.get(name) for arm in arms} - {NOTHING} for name in arms[0]}
            return {
                name: scale
                for name, scales in both.items()
                if len(scales) <= 1 and (scale := next(iter(scales), NOTHING)) is not None
            }
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before")
    assert_never(node)


def _of_source(output: Output, known: Mapping[str, int]) -> int | None:
    declared = declared_scale(output.type)
    return known.get(bare_column(output.scalar) or "") if declared is None else declared


def decimals_of(node: Node, computed: Collection[str]) -> frozenset[str]:
    """Return the numeric columns of a plan that an engine has as decimals, not as texts.

    ``computed`` are the columns that it computes with.
    """
    match node:
        case Scan():
            numerics = (one.name for one in node.outputs if one.type.base == "numeric")
            return frozenset(name for name in numerics if name in computed)
        case Filter() | Weigh():
            return decimals_of(node.child, computed)
        case InnerJoin():
            return decimals_of(node.left, computed) | decimals_of(node.right, computed)
        case Project():
            below = decimals_of(node.child, computed)
            return frozenset(
                one.name
                for one in node.outputs
                if one.type.base == "numeric" and bare_column(one.scalar) in {None, *below}
            )
        case UnionAll():
            return frozenset().union(*(decimals_of(child, computed) for child in node.children))
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before")
    assert_never(node)


class ScaleNames:
    """Names the columns that hold the digits of others, unlike any column of the plan."""

    def __init__(self, node: Node) -> None:
        self._taken = _names_in(node)
        self._names: dict[str, str] = {}

    def of(self, column: str) -> str:
        """Return the name of the column that holds the digits of ``column``."""
        if column not in self._names:
            wanted, number = f"{column}_scale", 1
            while wanted in self._taken:
                number += 1
                wanted = f"{column}_scale_{number}"
            self._taken.add(wanted)
            self._names[column] = wanted
        return self._names[column]


def carry_scales(node: Node, wanted: Collection[str], names: ScaleNames) -> Node:
    """Return the plan with the digits of the ``wanted`` columns as further columns."""
    if not wanted:
        return node
    match node:
        case Scan():
            outputs = tuple(_scale_output(one, names) for one in node.outputs if one.name in wanted)
            return replace(node, outputs=node.outputs + outputs)
        case Filter() | Weigh():
            return replace(node, child=carry_scales(node.child, wanted, names))
        case InnerJoin():
            left, right = (column_names(side) for side in (node.left, node.right))
            return replace(
                node,
                left=carry_scales(node.left, left.intersection(wanted), names),
                right=carry_scales(node.right, right.intersection(wanted), names),
            )
        case Project():
            return _project(node, wanted, names)
        case UnionAll():
            return UnionAll(tuple(carry_scales(child, wanted, names) for child in node.children))
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before")
    assert_never(node)


def _project(node: Project, wanted: Collection[str], names: ScaleNames) -> Project:
    types = {column.name: column.type for column in columns_of(node.child)}
    below: dict[str, None] = {}

    def column(name: str) -> exp.Expr | None:
        if types[name].base != "numeric":
            return None
        below[name] = None
        return exp.column(exp.to_identifier(names.of(name), quoted=True))

    added = []
    for output in node.outputs:
        if output.name in wanted:
            tree = parse_scalar(output.scalar.sql)
            scale = scale_of(tree, types, column)
            added.append(Output(names.of(output.name), _scale_scalar(tree, scale), INTEGER))
    child = carry_scales(node.child, below, names)
    return Project(child, (*node.outputs, *added))


def _scale_scalar(value: exp.Expr, scale: exp.Expr | None) -> Scalar:
    if scale is None:
        return make_scalar(exp.func("scale", value.copy()))
    # PostgreSQL takes a NULL without a type for a text where arms are put together.
    return null_scalar(INTEGER) if isinstance(scale, exp.Null) else make_scalar(scale)


def _scale_output(output: Output, names: ScaleNames) -> Output:
    scalar = make_scalar(exp.func("scale", parse_scalar(output.scalar.sql).copy()))
    return Output(names.of(output.name), scalar, INTEGER)


def _names_in(node: Node) -> set[str]:
    below = (_names_in(child) for child in children_of(node))
    return set(column_names(node)).union(*below)
