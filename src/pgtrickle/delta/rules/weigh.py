"""Delta rule for repeated rows: INTERSECT ALL, EXCEPT ALL, rows of an outer join without a partner.

    Δ(n · Q)  =  n · ΔQ

``n`` is a column of the row itself, so a row whose number changes arrives as a delete with the
old number and an insert with the new one.  Multiplying weights is linear: nothing is stored.
"""

from __future__ import annotations

from pgtrickle.algebra.nodes import Weigh
from pgtrickle.delta.context import DeltaContext


def delta_weigh(node: Weigh, ctx: DeltaContext) -> Weigh | None:
    """Repeat the changed rows as often as their factor says.

    >>> from pgtrickle.algebra.nodes import Scalar, Scan, Source, SourceKind
    >>> from pgtrickle.algebra.printer import show
    >>> from pgtrickle.delta.derive import derive
    >>> counted = Scan(Source(SourceKind.STATE, "group_1"), "g", ())
    >>> show(derive(Weigh(counted, Scalar("n", ("n",))), changed={"g"}))
    '(n · Δg)'
    """
    child = ctx.delta(node.child)
    return Weigh(child, node.factor) if child else None
