"""Outer, semi and anti joins, built from operators that already have rules.

    L ⟕ R  =  L ⋈ (R + N)        N: one row of NULLs for each key of L that R lacks

The keys that R lacks are counted like a set operation (see ``count_sides``), and the join compares
keys with NULL equal to NULL, so that a row whose key is NULL finds its row of NULLs in N; rows of R
with a NULL key never match and are left out.  A condition on the outer side alone makes the key
NULL where it does not hold; one on the inner side alone filters R.  So the first match gained and
the last match lost are changes of N, and no other part has to know about outer joins.

N may have keys that L lacks: they join nothing.  So the keys come from one input of L where
possible, and a chain of outer joins has stages of two inputs each, however long it is.

If the condition is not a conjunction of equalities and of conditions on one side each, the rows
themselves are the key: an outer row that is in no pair is padded with NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from pgtrickle.algebra.nodes import (
    Aggregate,
    Filter,
    InnerJoin,
    Node,
    Output,
    Project,
    Scalar,
    UnionAll,
    Weigh,
)
from pgtrickle.algebra.schema import column_names, columns_of
from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.lower.count_sides import count_sides
from pgtrickle.sql.plan_columns import PlanColumns
from pgtrickle.sql.scalars import (
    bare_column,
    column_scalar,
    conjunction,
    equality,
    make_scalar,
    never_fails,
    null_scalar,
    parse_scalar,
    pass_on,
    substitute,
)
from pgtrickle.sql.scope import Scope, Typed, cast

_FEW_INPUTS = 4
# Types whose casts to the common type of two columns have a value for each of theirs.
_WIDEN = frozenset({"int2", "int4", "int8", "varchar", "text"})


@dataclass(frozen=True, slots=True)
class Side:
    """One input of a join and the names it shows."""

    node: Node
    scope: Scope


@dataclass(frozen=True, slots=True)
class _Keys:
    """The compared keys of the two sides, each pair with its common type."""

    outer: tuple[Scalar, ...]
    inner: tuple[Scalar, ...]
    types: tuple[SqlType, ...]
    inner_only: tuple[Scalar, ...]
    never_fail: bool  # the outer keys have a value for every row, also for one that joins nothing


def left_join(
    columns: PlanColumns,
    outer: Side,
    inner: Side,
    conditions: Sequence[Scalar],
    pairs: Node | None = None,
) -> Side:
    """Join every row of ``outer``; the result shows the names of both sides.

    ``pairs`` are the rows of both sides that belong together, where conditions alone do not tell.
    """
    keys = None if pairs else _split(columns, outer.node, inner.node, conditions)
    if keys is None:
        matched = pairs or InnerJoin(outer.node, inner.node, conjunction(list(conditions)))
        return _left_join_by_rows(columns, outer, inner, matched)
    matching = _matching(inner.node, keys)
    lacking = _unmatched(columns, outer.node, matching, keys)
    keyed, outer_keys = _keyed(columns, outer.node, keys.outer, keys.types)
    shown = _shown(columns, inner)
    inner_keys = [columns.fresh("key") for _ in keys.types]
    found = _outputs(inner_keys, keys.inner, keys.types) + shown.found
    absent = tuple(
        Output(new, column_scalar(key.name), key.type)
        for new, key in zip(inner_keys, columns_of(lacking), strict=False)
    )
    extended = UnionAll((Project(matching, found), Project(lacking, absent + shown.absent)))
    node = InnerJoin(keyed, extended, _same(outer_keys, inner_keys))
    columns.remember(node)
    return Side(node, {**outer.scope, **shown.scope})


def _left_join_by_rows(columns: PlanColumns, outer: Side, inner: Side, matched: Node) -> Side:
    """Join on any condition: the pairs, and the outer rows that are in no pair.

    L ⟕ R  =  (L ⋈ R) + n · {rows of L, each once with its number n, that L ⋈ R lacks}
    """
    alone = _rows_alone(columns, outer.node, matched)
    shown = _shown(columns, inner)
    renamed = {one.name: columns.fresh(one.name) for one in columns_of(outer.node)}
    own = tuple(
        Output(renamed[one.name], column_scalar(one.name), one.type)
        for one in columns_of(outer.node)
    )
    node = UnionAll((Project(matched, own + shown.found), Project(alone, own + shown.absent)))
    columns.remember(node)
    new = {old: column_scalar(name) for old, name in renamed.items()}
    scope: Scope = {
        alias: {n: Typed(substitute(one.scalar, new), one.type) for n, one in of.items()}
        for alias, of in outer.scope.items()
    }
    return Side(node, {**scope, **shown.scope})


def full_join(
    columns: PlanColumns,
    left: Side,
    right: Side,
    conditions: Sequence[Scalar],
    outer: Scope,
    pairs: Node | None = None,
) -> Side:
    """Join every row of both sides.

    ``outer`` has names of the left side that also have a meaning in rows of the right one alone.
    """
    in_right = {**right.scope, **outer}
    joined = left_join(columns, left, right, conditions, pairs)
    if pairs is None:
        alone = rows_without_partner(columns, right.node, left.node, conditions)
    else:
        alone = _rows_alone(columns, right.node, pairs)
    outputs, padded = [], []
    scope: Scope = {alias: {} for alias in joined.scope}
    for alias, shown in joined.scope.items():
        for name, typed in shown.items():
            new = columns.fresh(f"{alias}_{name}")
            known = in_right.get(alias, {}).get(name)
            outputs.append(Output(new, typed.scalar, typed.type))
            padded.append(
                Output(new, known.scalar if known else null_scalar(typed.type), typed.type)
            )
            scope[alias][name] = Typed(column_scalar(new), typed.type)
    node = UnionAll((Project(joined.node, tuple(outputs)), Project(alone, tuple(padded))))
    columns.remember(node)
    return Side(node, scope)


def rows_without_partner(
    columns: PlanColumns, outer: Node, inner: Node, conditions: Sequence[Scalar]
) -> Node:
    """Return the rows of ``outer`` for which no row of ``inner`` meets the conditions."""
    keys = _split(columns, outer, inner, conditions)
    if keys is None:
        return _rows_alone(columns, outer, InnerJoin(outer, inner, conjunction(list(conditions))))
    lacking = _unmatched(columns, outer, _matching(inner, keys), keys)
    keyed, outer_keys = _keyed(columns, outer, keys.outer, keys.types)
    names = [key.name for key in columns_of(lacking)][: len(keys.types)]
    node = InnerJoin(keyed, lacking, _same(outer_keys, names))
    columns.remember(node)
    return node


def rows_with_partner(
    columns: PlanColumns, outer: Node, inner: Node, conditions: Sequence[Scalar]
) -> Node:
    """Return the rows of ``outer`` for which some row of ``inner`` meets the conditions.

    L ⋉ R = L ⋈ D, where D holds each key of R once: however many partners a row has, it stays
    one row.
    """
    keys = _split(columns, outer, inner, conditions)
    if keys is None:
        raise ValueError("a semi join needs keys")
    names = [columns.fresh("key") for _ in keys.types]
    own = Project(_matching(inner, keys), _outputs(names, keys.inner, keys.types))
    distinct = Aggregate(own, columns_of(own), calls=())
    keyed, outer_keys = _keyed(columns, outer, keys.outer, keys.types)
    node = InnerJoin(keyed, distinct, _same(outer_keys, names, "="))
    columns.remember(node)
    return node


def is_keyed(columns: PlanColumns, outer: Node, inner: Node, conditions: Sequence[Scalar]) -> bool:
    """Tell whether there are only equalities between the sides and conditions on one side."""
    return _split(columns, outer, inner, conditions) is not None


@dataclass(frozen=True, slots=True)
class _Shown:
    """The columns of an inner side under fresh names: unchanged, and as NULLs."""

    found: tuple[Output, ...]
    absent: tuple[Output, ...]
    scope: Scope


def _shown(columns: PlanColumns, inner: Side) -> _Shown:
    found, absent = [], []
    scope: Scope = {alias: {} for alias in inner.scope}
    for alias, own in inner.scope.items():
        for name, typed in own.items():
            new = columns.fresh(f"{alias}_{name}")
            found.append(Output(new, typed.scalar, typed.type))
            absent.append(Output(new, null_scalar(typed.type), typed.type))
            scope[alias][name] = Typed(column_scalar(new), typed.type)
    return _Shown(tuple(found), tuple(absent), scope)


def _rows_alone(columns: PlanColumns, outer: Node, matched: Node) -> Node:
    """Return the rows of ``outer`` that are in no pair of ``matched``, under their own names."""
    own = columns_of(outer)
    names = [columns.fresh(column.name) for column in own]
    renamed = tuple(
        Output(name, column_scalar(column.name), column.type)
        for name, column in zip(names, own, strict=True)
    )
    counted = count_sides(columns, Project(outer, renamed), Project(matched, renamed))
    condition = conjunction(counted.rows("= 0"))
    alone = Weigh(
        Filter(counted.node, condition) if condition else counted.node,
        column_scalar(counted.left),
    )
    back = tuple(
        Output(column.name, column_scalar(name), column.type)
        for name, column in zip(names, own, strict=True)
    )
    return Project(alone, back)


def _unmatched(columns: PlanColumns, outer: Node, matching: Node, keys: _Keys) -> Node:
    """Return the keys of ``outer`` that ``matching`` lacks, each once; the keys come first.

    There may be others, of rows that ``outer`` drops.
    """
    source = _source_of(outer, keys.outer) if keys.never_fail else outer
    # State under this name has keys that state of older versions lacks.
    names = [columns.fresh("key" if source is outer else "source_key") for _ in keys.types]
    left = Project(source, _outputs(names, keys.outer, keys.types))
    right = Project(matching, _outputs(names, keys.inner, keys.types))
    counted = count_sides(columns, left, right)
    condition = conjunction(counted.rows("= 0"))
    return Filter(counted.node, condition) if condition else counted.node


def _source_of(outer: Node, keys: Sequence[Scalar]) -> Node:
    """Return the input of ``outer`` that has the keys: all of them, and perhaps more.

    An outer join drops no row, so nothing is lost below it. Below an inner join the keys may be
    many more; they are worth it if that spares the join of many inputs.
    """
    names = frozenset(name for key in keys for name in key.columns)
    many = _count_inputs(outer) > _FEW_INPUTS
    while True:
        match outer:
            case InnerJoin() if many or isinstance(outer.right, UnionAll):
                sides = [one for one in (outer.left, outer.right) if names <= column_names(one)]
            case Project() if names <= {one.name for one in outer.outputs if _is_passed_on(one)}:
                sides = [outer.child]
            case _:
                sides = []
        if not sides:
            return outer
        outer = sides[0]


def _is_passed_on(output: Output) -> bool:
    return bare_column(output.scalar) == output.name


def _count_inputs(node: Node) -> int:
    """Count the inputs that a chain of joins puts together."""
    match node:
        case InnerJoin():
            return _count_inputs(node.left) + _count_inputs(node.right)
        case Project() | Filter():
            return _count_inputs(node.child)
        case _:
            return 1


def _split(
    columns: PlanColumns, outer: Node, inner: Node, conditions: Sequence[Scalar]
) -> _Keys | None:
    """Sort the conditions of a join by the sides they read; None if one mixes both."""
    outer_names, inner_names = column_names(outer), column_names(inner)
    pairs: list[tuple[Scalar, Scalar]] = []
    outer_only: list[Scalar] = []
    inner_only: list[Scalar] = []
    for condition in conditions:
        used = set(condition.columns)
        pair = _pair(condition, outer_names, inner_names)
        if pair is not None:
            pairs.append(pair)
        elif used and used <= outer_names:
            outer_only.append(condition)
        elif used <= inner_names:
            inner_only.append(condition)
        else:
            return None
    if not pairs:
        return None
    outer_keys = [left for left, _ in pairs]
    if guard := conjunction(outer_only):
        outer_keys[0] = _guarded(outer_keys[0], guard)
    inner_keys = [right for _, right in pairs]
    typed = [columns.typed(outer_keys), columns.typed(inner_keys)]
    types = columns.union_types(typed)
    total = all(never_fails(parse_scalar(one.sql)) for one in outer_keys)
    return _Keys(
        tuple(cast(one, type_) for one, type_ in zip(typed[0], types, strict=True)),
        tuple(cast(one, type_) for one, type_ in zip(typed[1], types, strict=True)),
        types,
        tuple(inner_only),
        total and all(map(_widens, typed[0], types)),
    )


def _widens(typed: Typed, type_: SqlType) -> bool:
    """Tell whether every value of an expression has a value of the common type."""
    return typed.type.display == type_.display or typed.type.base in _WIDEN


def _pair(
    condition: Scalar, outer: frozenset[str], inner: frozenset[str]
) -> tuple[Scalar, Scalar] | None:
    sides = equality(condition)
    if sides is None:
        return None
    for left, right in (sides, sides[::-1]):
        if (
            left.columns
            and right.columns
            and outer.issuperset(left.columns)
            and inner.issuperset(right.columns)
        ):
            return left, right
    return None


def _guarded(key: Scalar, guard: Scalar) -> Scalar:
    case = exp.Case().when(parse_scalar(guard.sql).copy(), parse_scalar(key.sql).copy())
    return make_scalar(case)


def _matching(inner: Node, keys: _Keys) -> Node:
    present = [make_scalar(parse_scalar(f"({key.sql}) IS NOT NULL")) for key in keys.inner]
    condition = conjunction([*keys.inner_only, *present])
    return Filter(inner, condition) if condition else inner


def _keyed(
    columns: PlanColumns, node: Node, keys: Sequence[Scalar], types: Sequence[SqlType]
) -> tuple[Project, list[str]]:
    """Return a node with its keys as additional columns."""
    names = [columns.fresh("key") for _ in keys]
    own = tuple(map(pass_on, columns_of(node)))
    return Project(node, own + _outputs(names, keys, types)), names


def _outputs(
    names: Sequence[str], scalars: Sequence[Scalar], types: Sequence[SqlType]
) -> tuple[Output, ...]:
    return tuple(
        Output(name, scalar, type_)
        for name, scalar, type_ in zip(names, scalars, types, strict=True)
    )


def _same(
    left: Sequence[str], right: Sequence[str], operator: str = "IS NOT DISTINCT FROM"
) -> Scalar | None:
    return conjunction(
        [
            make_scalar(parse_scalar(f"{column_scalar(a).sql} {operator} {column_scalar(b).sql}"))
            for a, b in zip(left, right, strict=True)
        ]
    )
