"""Delta rule for WHERE and HAVING.

    Δ(σ[p] Q)  =  σ[p](ΔQ)

A filter is linear, so it needs no stored state.  An UPDATE that carries a row across the
predicate arrives as a delete and an insert of which only one survives, which is right.
"""

from __future__ import annotations

from pgtrickle.algebra.nodes import Filter
from pgtrickle.delta.context import DeltaContext


def delta_filter(node: Filter, ctx: DeltaContext) -> Filter | None:
    """Keep the changed rows that satisfy the predicate.

    >>> from pgtrickle.algebra.nodes import Scalar, Scan, Source, SourceKind
    >>> from pgtrickle.algebra.printer import show
    >>> from pgtrickle.delta.derive import derive
    >>> orders = Scan(Source(SourceKind.TABLE, "1"), "o", ())
    >>> show(derive(Filter(orders, Scalar("total > 9")), changed={"o"}))
    'σ[total > 9](Δo)'
    """
    child = ctx.delta(node.child)
    return Filter(child, node.predicate) if child else None
