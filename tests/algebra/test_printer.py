"""Plans in words: one line of algebra, and a tree."""

from __future__ import annotations

from pgtrickle.algebra.printer import show, tree
from pgtrickle.algebra.schema import columns_of, scans_of
from pgtrickle.delta.derive import derive, full
from tests.sql.queries import lowered

_SQL = (
    "SELECT t.k, u.c FROM (public.t t JOIN public.u u ON ((t.k = u.id))) WHERE (t.id > 1)"
    " UNION ALL SELECT v.k, v.c FROM public.v v"
)


def test_one_line() -> None:
    node = lowered(_SQL, columns=2).node

    assert show(node) == '(π[k, c]((σ["t_id" > 1](t⁺) ⋈["t_k" = "u_id"] u⁺)) + π[k, c](v⁺))'


def test_the_delta_in_one_line() -> None:
    node = derive(lowered("SELECT t.c FROM public.t t, public.u u").node, {"t", "u"})

    assert node is not None
    assert show(node) == "((Δt ⋈ u⁺) + (t⁻ ⋈ Δu))"
    assert show(full(node)) == "((t⁺ ⋈ u⁺) + (t⁺ ⋈ u⁺))"


def test_tree_columns_and_scans() -> None:
    node = lowered(_SQL, columns=2).node

    assert tree(node).splitlines()[:3] == [
        "UnionAll",
        '  Project "t_k" as k, "u_c" as c',
        '    InnerJoin on "t_k" = "u_id"',
    ]
    assert [column.name for column in columns_of(node)] == ["k", "c"]
    assert [scan.alias for scan in scans_of(node)] == ["t", "u", "v"]
