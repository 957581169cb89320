"""Delta rule for a projection.

    Δ(π[e] Q)  =  π[e](ΔQ)

A projection maps each row by itself, so it is linear and needs no stored state.  It may map two
rows to one: their weights add up when the result is consolidated.
"""

from __future__ import annotations

from pgtrickle.algebra.nodes import Project
from pgtrickle.delta.context import DeltaContext


def delta_project(node: Project, ctx: DeltaContext) -> Project | None:
    """Compute the outputs of the changed rows.

    >>> from pgtrickle.algebra.nodes import Scan, Source, SourceKind
    >>> from pgtrickle.algebra.printer import show
    >>> from pgtrickle.delta.derive import derive
    >>> orders = Scan(Source(SourceKind.TABLE, "1"), "o", ())
    >>> show(derive(Project(orders, ()), changed={"o"}))
    'π[](Δo)'
    """
    child = ctx.delta(node.child)
    return Project(child, node.outputs) if child else None
