"""GROUPING SETS, CUBE and ROLLUP as a union of plain GROUP BYs.

    SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)

becomes the union of the queries grouped by ``a, b``, by ``a`` (with NULL for ``b``) and by
nothing.  GROUPING() is a constant in each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product

from sqlglot import exp

from pgtrickle.sql.lower.groups.grouping import is_call
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.text.limits import MAX_GROUPING_SETS
from pgtrickle.sql.text.own_level import replace_nodes

_GROUPERS = (exp.GroupingSets, exp.Cube, exp.Rollup)
_Set = tuple[exp.Expr, ...]


def has_grouping_sets(select: exp.Select) -> bool:
    """Tell whether a query groups in several ways at once."""
    group = select.args.get("group")
    return group is not None and any(isinstance(one, _GROUPERS) for one in group.expressions)


def expand_grouping_sets(
    select: exp.Select, null_of: Callable[[exp.Expr], exp.Expr]
) -> list[exp.Select]:
    """Return one query for each grouping set; ``null_of`` makes a NULL of a key's type.

    >>> import sqlglot
    >>> query = sqlglot.parse_one("SELECT a, count(*) FROM t GROUP BY ROLLUP (a)")
    >>> [one.sql() for one in expand_grouping_sets(query, lambda key: exp.null())]
    ['SELECT a, COUNT(*) FROM t GROUP BY a', 'SELECT NULL, COUNT(*) FROM t GROUP BY ()']
    """
    parts = [list(_sets(one)) for one in select.args["group"].expressions]
    sets = [tuple(key for keys in choice for key in keys) for choice in product(*parts)]
    if select.args["group"].args.get("all") is False:  # GROUP BY DISTINCT
        sets = list({frozenset(map(_text, chosen)): chosen for chosen in sets}.values())
    if len(sets) > MAX_GROUPING_SETS:
        raise Refusal(
            f"{len(sets)} grouping sets", "cube", "rollup", "grouping sets",
            hint=f"At most {MAX_GROUPING_SETS} are maintained; split the query.",
        )  # fmt: skip
    keys = {_text(key): key for chosen in sets for key in chosen}
    return [_restricted(select, chosen, keys, null_of) for chosen in sets]


def _sets(item: exp.Expr) -> Iterator[_Set]:
    """Yield the grouping sets of one item of GROUP BY."""
    if isinstance(item, exp.Rollup):
        units = [_unit(one) for one in item.expressions]
        for size in range(len(units), -1, -1):
            yield tuple(key for unit in units[:size] for key in unit)
    elif isinstance(item, exp.Cube):
        units = [_unit(one) for one in item.expressions]
        for size in range(len(units), -1, -1):
            for chosen in combinations(units, size):
                yield tuple(key for unit in chosen for key in unit)
    elif isinstance(item, exp.GroupingSets):
        for one in item.expressions:
            yield from _sets(one)
    else:
        yield _unit(item)


def _unit(item: exp.Expr) -> _Set:
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.this,) if isinstance(item, exp.Paren) else (item,)


def _restricted(
    select: exp.Select,
    chosen: _Set,
    keys: dict[str, exp.Expr],
    null_of: Callable[[exp.Expr], exp.Expr],
) -> exp.Select:
    present = {_text(key) for key in chosen}
    nulls = {text: null_of(key) for text, key in keys.items() if text not in present}
    copy = select.copy()
    copy.set("distinct", None)
    copy.set("with_", None)
    unique = {_text(key): key for key in chosen}.values()
    copy.set("group", exp.Group(expressions=[key.copy() for key in unique] or [exp.Tuple()]))
    copy.set("expressions", [_replaced(one, nulls) for one in select.expressions])
    if having := select.args.get("having"):
        copy.set("having", exp.Having(this=_replaced(having.this, nulls)))
    return copy


def _replaced(expression: exp.Expr, nulls: dict[str, exp.Expr]) -> exp.Expr:
    """Replace the keys that a set omits by NULL, except inside aggregate calls."""

    def replacement(node: exp.Expr) -> exp.Expr | None:
        if isinstance(node, exp.Grouping):
            bits = "".join("1" if _text(one) in nulls else "0" for one in node.expressions)
            return exp.cast(exp.Literal.number(int(bits, 2)), "int")
        if _text(node) in nulls:
            return nulls[_text(node)].copy()
        return node.copy() if is_call(node) else None

    return replace_nodes(expression, replacement)


def _text(node: exp.Expr) -> str:
    return node.unnest().sql(dialect="postgres")
