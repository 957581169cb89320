"""Delta rule for INNER JOIN.

    Δ(L ⋈ R)  =  ΔL ⋈ R⁺  +  L⁻ ⋈ ΔR

L⁻ is the left input before this refresh, R⁺ the right input after it.  To see that it is right,
write R⁺ as R⁻ + ΔR and expand: the sum is (L⁻ + ΔL) ⋈ (R⁻ + ΔR) less L⁻ ⋈ R⁻.

The weight of a pair is the product of its rows' weights.  A pair that never existed, its left
row deleted and its right row inserted by the same refresh, appears once with each sign, so the
result must be consolidated before it is applied.

Reads ``L⁻`` and ``R⁺`` restricted to the keys of the other side's change; where one side did
not change, its term is dropped.
"""

from __future__ import annotations

from pgtrickle.algebra.nodes import InnerJoin, Node, Version
from pgtrickle.delta.context import DeltaContext
from pgtrickle.delta.rules.union_all import add


def delta_inner_join(node: InnerJoin, ctx: DeltaContext) -> Node | None:
    """Derive the change of an inner join from the changes of its two inputs.

    >>> from pgtrickle.algebra.nodes import Scalar, Scan, Source, SourceKind
    >>> from pgtrickle.algebra.printer import show
    >>> from pgtrickle.delta.derive import derive
    >>> o, c = (Scan(Source(SourceKind.TABLE, key), key, ()) for key in "oc")
    >>> join = InnerJoin(o, c, Scalar("cid = id"))
    >>> show(derive(join, changed={"o", "c"}))
    '((Δo ⋈[cid = id] c⁺) + (o⁻ ⋈[cid = id] Δc))'
    >>> show(derive(join, changed={"o"}))
    '(Δo ⋈[cid = id] c⁺)'
    """
    left, right = ctx.delta(node.left), ctx.delta(node.right)
    return add(
        [
            left and InnerJoin(left, ctx.at(node.right, Version.AFTER), node.on),
            right and InnerJoin(ctx.at(node.left, Version.BEFORE), right, node.on),
        ]
    )
