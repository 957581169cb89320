"""Move filters and expressions over one source down into its scan.

PostgreSQL evaluates the expressions of a scan, on its own types and with its own functions, so an
expression over one table is exact without any translation.  Expressions above cross tables, or are
computed from the result of a join with operations that the engine has too.

    σ[o.qty > 2 ∧ o.cid = c.id](o × c)   becomes   σ[o.cid = c.id](σ[o.qty > 2](o) × c)
    π[lower(o.note) || c.name]           becomes   π[x || c.name] over a scan that yields x
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from pgtrickle.algebra.schema import column_names, columns_of, scans_of
from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.sql.bound import Typer
from pgtrickle.sql.scalars import (
    bare_column,
    column_scalar,
    conjunction,
    conjuncts,
    make_scalar,
    never_fails,
    parse_scalar,
    pass_on,
    substitute,
)
from pgtrickle.sql.translate import Dialect, translate

# Parts of an expression that are not values by themselves, or are already a column.
_NOT_VALUES = (
    exp.Column,
    exp.DataType,
    exp.If,
    exp.Any,
    exp.All,
    exp.Array,
    exp.Tuple,
    exp.Interval,
)


def push_into_scans(node: Node, typer: Typer) -> Node:
    """Return an equal plan whose scans evaluate everything that reads only them."""
    pushed = _push_filters(node, [])
    scans = {scan.alias: scan for scan in scans_of(pushed)}
    computed = _Computed(scans, {name for scan in scans.values() for name in column_names(scan)})
    rewritten = _extract(pushed, computed)
    return _add_outputs(rewritten, computed.outputs(typer))


def _push_filters(node: Node, conditions: Sequence[Scalar]) -> Node:
    match node:
        case Scan():
            own = {output.name: output.scalar for output in node.outputs}
            parts = [node.predicate] if node.predicate else []
            parts += [substitute(condition, own) for condition in conditions]
            return replace(node, predicate=conjunction(parts))
        case Filter():
            return _push_filters(node.child, [*conditions, *conjuncts(node.predicate)])
        case Weigh():
            return replace(node, child=_push_filters(node.child, conditions))
        case Project():
            own = {output.name: output.scalar for output in node.outputs}
            return replace(
                node,
                child=_push_filters(node.child, [substitute(one, own) for one in conditions]),
            )
        case InnerJoin():
            return _push_into_join(node, conditions)
        case UnionAll():
            children = tuple(_push_filters(child, conditions) for child in node.children)
            return UnionAll(children)
        case Aggregate() | Recompute():
            raise ValueError("a plan is cut at its stateful operators before filters are pushed")
    assert_never(node)


def _push_into_join(node: InnerJoin, conditions: Sequence[Scalar]) -> Node:
    waiting = [*conditions, *(conjuncts(node.on) if node.on else ())]
    left, right = column_names(node.left), column_names(node.right)
    to_left = [one for one in waiting if left.issuperset(one.columns)]
    to_right = [one for one in waiting if one not in to_left and right.issuperset(one.columns)]
    stay = [one for one in waiting if one not in to_left and one not in to_right]
    return InnerJoin(
        _push_filters(node.left, to_left), _push_filters(node.right, to_right), conjunction(stay)
    )


@dataclass
class _Computed:
    """The expressions that scans will evaluate, found while the plan is rewritten."""

    scans: dict[str, Scan]
    taken: set[str]  # column names of the whole plan
    found: dict[str, dict[str, tuple[str, Scalar]]] = field(default_factory=dict)

    def name_of(self, scan: Scan, scalar: Scalar) -> str:
        known = self.found.setdefault(scan.alias, {})
        if scalar.sql not in known:
            number = len(known) + 1
            while (name := f"{scan.alias}_x{number}") in self.taken:
                number += 1
            self.taken.add(name)
            known[scalar.sql] = (name, scalar)
        return known[scalar.sql][0]

    def outputs(self, typer: Typer) -> dict[str, tuple[Output, ...]]:
        result = {}
        for alias, known in self.found.items():
            scan = self.scans[alias]
            types = {output.name: output.type for output in scan.outputs}
            own = {output.name: output.scalar for output in scan.outputs}
            found = list(known.values())
            answers = typer.types_of([scalar for _, scalar in found], types)
            result[alias] = tuple(
                Output(name, substitute(scalar, own), type_)
                for (name, scalar), type_ in zip(found, answers, strict=True)
            )
        return result


def _extract(node: Node, computed: _Computed) -> Node:
    match node:
        case Scan():
            return node
        case Filter():
            predicate = _cut_out(node.predicate, _origins(node.child), computed)
            return Filter(_extract(node.child, computed), predicate)
        case Weigh():
            factor = _cut_out(node.factor, _origins(node.child), computed)
            return Weigh(_extract(node.child, computed), factor)
        case Project():
            origins = _origins(node.child)
            outputs = tuple(
                output
                if _stays_above(output.scalar, node.child)
                else replace(output, scalar=_cut_out(output.scalar, origins, computed))
                for output in node.outputs
            )
            return Project(_extract(node.child, computed), outputs)
        case InnerJoin():
            return InnerJoin(
                _extract(node.left, computed),
                _extract(node.right, computed),
                _cut_out(node.on, _origins(node), computed) if node.on else None,
            )
        case UnionAll():
            return UnionAll(tuple(_extract(child, computed) for child in node.children))
        case Aggregate() | Recompute():
            raise ValueError(
                "a plan is cut at its stateful operators before expressions are pushed"
            )
    assert_never(node)


def _stays_above(scalar: Scalar, child: Node) -> bool:
    """Tell whether the engine can evaluate an expression above a join, where it belongs.

    A join guards expressions over its result: below it, ``10 / t.b`` would fail for a row
    with zero that joins nothing.
    """
    if isinstance(child, Scan):
        return False
    types = {column.name: column.type for column in columns_of(child)}
    try:
        translate(scalar, types, Dialect.SPARK)
    except UnsupportedExpressionError:
        return False
    return True


_Origins = Mapping[str, tuple[Scan, str]]


def _origins(node: Node) -> _Origins:
    """Return, for each column that comes unchanged from a scan, the scan and its name there.

    The rows of a union come from several scans, so no single scan can compute with them.
    """
    match node:
        case Scan():
            return {output.name: (node, output.name) for output in node.outputs}
        case Filter() | Weigh():
            return _origins(node.child)
        case Project():
            below = _origins(node.child)
            names = {output.name: bare_column(output.scalar) for output in node.outputs}
            return {
                new: below[old] for new, old in names.items() if old is not None and old in below
            }
        case InnerJoin():
            return {**_origins(node.left), **_origins(node.right)}
        case UnionAll():
            return {}
        case Aggregate() | Recompute():
            raise ValueError(
                "a plan is cut at its stateful operators before expressions are pushed"
            )
    assert_never(node)


def _cut_out(scalar: Scalar, origins: _Origins, computed: _Computed) -> Scalar:
    """Replace the largest parts of a scalar that read one scan by columns of that scan."""
    if bare_column(scalar) is not None:
        return scalar

    def replace_part(part: exp.Expr) -> exp.Expr:
        if isinstance(part.unnest(), _NOT_VALUES) or _is_row(part.unnest()):
            return part
        if isinstance(part, exp.Paren) and isinstance(part.parent, exp.Any | exp.All):
            return part  # of the syntax around them
        names = [column.name for column in part.find_all(exp.Column)]
        if names and isinstance(part, exp.Condition | exp.Func | exp.Cast | exp.Paren):
            owner = _owner(names, origins)
            movable = not _is_guarded(part) or never_fails(part)
            if owner is not None and movable:
                inside = {name: column_scalar(origins[name][1]) for name in names}
                moved = substitute(make_scalar(part), inside)
                if not _widens_integer(parse_scalar(moved.sql), owner):
                    return parse_scalar(column_scalar(computed.name_of(owner, moved)).sql).copy()
        return part

    return make_scalar(parse_scalar(scalar.sql).transform(replace_part))


def _is_row(part: exp.Expr) -> bool:
    """Tell whether a part is a row of no named type, which no table can hold."""
    return isinstance(part, exp.Anonymous) and str(part.this).upper() == "ROW"


def _owner(names: Sequence[str], origins: _Origins) -> Scan | None:
    """Return the one scan that all these columns come from."""
    found = {origins[name][0].alias: origins[name][0] for name in names if name in origins}
    scans = list(found.values())
    return scans[0] if len(scans) == 1 and origins.keys() >= set(names) else None


def _is_guarded(part: exp.Expr) -> bool:
    """Tell whether a part is evaluated only under a condition of the expression around it."""
    above = part.parent
    while above is not None:
        if isinstance(above, exp.Case | exp.Coalesce):
            return True
        above = above.parent
    return False


def _widens_integer(part: exp.Expr, scan: Scan) -> bool:
    """Tell whether a part only makes a numeric of an integer column.

    Above the scan the integer's width is known, and with it the digits of a product; the result
    of the cast would be a numeric of any size.
    """
    if not (isinstance(part, exp.Cast) and part.to.is_type(exp.DType.DECIMAL)):
        return False
    types = {output.name: output.type.base for output in scan.outputs}
    operand = part.this.unnest()
    return isinstance(operand, exp.Column) and types.get(operand.name, "").startswith("int")


def _add_outputs(node: Node, outputs: dict[str, tuple[Output, ...]]) -> Node:
    match node:
        case Scan():
            return replace(node, outputs=node.outputs + outputs.get(node.alias, ()))
        case Filter() | Weigh():
            return replace(node, child=_add_outputs(node.child, outputs))
        case Project():
            return _pass_on(replace(node, child=_add_outputs(node.child, outputs)), outputs)
        case InnerJoin():
            return replace(
                node, left=_add_outputs(node.left, outputs), right=_add_outputs(node.right, outputs)
            )
        case UnionAll():
            return UnionAll(tuple(_add_outputs(child, outputs) for child in node.children))
        case Aggregate() | Recompute():
            raise ValueError(
                "a plan is cut at its stateful operators before expressions are pushed"
            )
    assert_never(node)


def _pass_on(node: Project, outputs: dict[str, tuple[Output, ...]]) -> Project:
    """Let a projection pass on the computed columns below it; unused ones are pruned later."""
    computed = {output.name for added in outputs.values() for output in added}
    passed = tuple(pass_on(column) for column in columns_of(node.child) if column.name in computed)
    return replace(node, outputs=node.outputs + passed)
