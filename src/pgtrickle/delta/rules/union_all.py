"""Delta rule for UNION ALL.

    Δ(Q₁ + Q₂)  =  ΔQ₁ + ΔQ₂

Adding multisets is linear: each branch contributes its own change, unchanged branches nothing.
"""

from __future__ import annotations

from pgtrickle.algebra.nodes import Node, UnionAll
from pgtrickle.delta.context import DeltaContext


def delta_union_all(node: UnionAll, ctx: DeltaContext) -> Node | None:
    """Add up the changes of the branches that changed.

    >>> from pgtrickle.algebra.nodes import Scan, Source, SourceKind
    >>> from pgtrickle.algebra.printer import show
    >>> from pgtrickle.delta.derive import derive
    >>> a, b = (Scan(Source(SourceKind.TABLE, key), key, ()) for key in "ab")
    >>> show(derive(UnionAll((a, b)), changed={"a", "b"}))
    '(Δa + Δb)'
    >>> show(derive(UnionAll((a, b)), changed={"b"}))
    'Δb'
    """
    return add([ctx.delta(child) for child in node.children])


def add(terms: list[Node | None]) -> Node | None:
    """Add up the terms that exist; None if there is none."""
    present = tuple(term for term in terms if term is not None)
    if len(present) <= 1:
        return present[0] if present else None
    return UnionAll(present)
