"""Columns that USING merges.

PostgreSQL prints a merged column of an inner, left or right join as the one of its sides that it
equals, but that of a FULL JOIN by its bare name: there it is the first side that is not NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from pgtrickle.sql.scalars import make_scalar, parse_scalar
from pgtrickle.sql.scope import MERGED, ROW, Scope, Typed, find_typed


def merge_columns(scope: Scope, names: Sequence[str], left: Scope, right: Scope, word: str) -> None:
    """Resolve a bare name to the merged column of a join."""
    if not names:
        return
    merged = dict(scope.get(MERGED, {}))
    for name in names:
        one, other = find_typed(left, name), find_typed(right, name)
        if word == "FULL":
            scalar = make_scalar(
                exp.Coalesce(
                    this=parse_scalar(one.scalar.sql).copy(),
                    expressions=[parse_scalar(other.scalar.sql).copy()],
                )
            )
            merged[name] = Typed(scalar, one.type)
        else:
            merged[name] = other if word == "RIGHT" else one
    rest = {alias: columns for alias, columns in scope.items() if alias != MERGED}
    scope.clear()
    scope[MERGED] = merged  # found before the columns it merges
    scope |= rest


def join_columns(scope: Scope) -> Iterator[tuple[str, Typed]]:
    """Yield the columns of a join in PostgreSQL's order: merged ones first, each once."""
    merged = scope.get(MERGED, {})
    yield from merged.items()
    for alias, columns in scope.items():
        if alias != MERGED:
            own = {*merged, ROW}
            yield from ((name, one) for name, one in columns.items() if name not in own)
