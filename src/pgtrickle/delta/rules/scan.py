"""Delta rule for a scan.

    Δ(scan T)  =  the weighted rows that the window of T holds

The filter and the computed columns of a scan are evaluated by PostgreSQL on each image of a row
by itself, so an UPDATE that carries a row across the filter leaves one weighted row, not two.
A source without a change in the window contributes nothing, and every term with it is dropped.
"""

from __future__ import annotations

from dataclasses import replace

from pgtrickle.algebra.nodes import Scan, Version


def delta_scan(node: Scan, *, changed: bool) -> Scan | None:
    """Read the changes of the source instead of its rows.

    >>> from pgtrickle.algebra.printer import show
    >>> from pgtrickle.algebra.nodes import Source, SourceKind
    >>> orders = Scan(Source(SourceKind.TABLE, "1"), "o", ())
    >>> show(delta_scan(orders, changed=True))
    'Δo'
    >>> delta_scan(orders, changed=False) is None
    True
    """
    return replace(node, version=Version.CHANGES) if changed else None
