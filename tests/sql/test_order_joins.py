"""The join tree: connected inputs first, each condition as low as it can be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgtrickle.algebra.nodes import (
    Filter,
    InnerJoin,
    Node,
    Output,
    Scalar,
    Scan,
    Source,
    SourceKind,
)
from pgtrickle.algebra.printer import show
from pgtrickle.algebra.schema import scans_of
from pgtrickle.sql.lower.order_joins import build_join_tree
from pgtrickle.sql.scalars import column_scalar, conjuncts
from tests.sql.queries import INT4


def _scan(name: str) -> Scan:
    outputs = (Output(f"{name}_k", column_scalar("k"), INT4),)
    return Scan(Source(SourceKind.TABLE, name), name, outputs)


def _equal(left: str, right: str) -> Scalar:
    return Scalar(f'"{left}_k" = "{right}_k"', (f"{left}_k", f"{right}_k"))


_C, _P, _O = map(_scan, "cpo")


def test_tables_that_share_no_condition_are_not_multiplied() -> None:
    tree = build_join_tree([_C, _P, _O], [_equal("o", "c"), _equal("o", "p")])

    assert show(tree) == '((c⁺ ⋈["o_k" = "c_k"] o⁺) ⋈["o_k" = "p_k"] p⁺)'


def test_an_equality_connects_better_than_another_condition() -> None:
    near = Scalar('"c_k" < "p_k"', ("c_k", "p_k"))

    tree = build_join_tree([_C, _P, _O], [near, _equal("o", "c")])

    assert show(tree) == '((c⁺ ⋈["o_k" = "c_k"] o⁺) ⋈["c_k" < "p_k"] p⁺)'


def test_a_condition_on_one_input_is_below_the_join() -> None:
    tree = build_join_tree([_C, _O], [Scalar('"o_k" > 1', ("o_k",)), _equal("o", "c")])

    assert show(tree) == '(c⁺ ⋈["o_k" = "c_k"] σ["o_k" > 1](o⁺))'


def test_a_condition_without_columns_stands_once() -> None:
    assert show(build_join_tree([_C, _O], [Scalar("FALSE")])) == "(σ[FALSE](c⁺) ⋈ o⁺)"


def _conditions(node: Node) -> list[str]:
    if isinstance(node, Filter):
        return [part.sql for part in conjuncts(node.predicate)] + _conditions(node.child)
    if isinstance(node, InnerJoin):
        own = [part.sql for part in conjuncts(node.on)] if node.on else []
        return own + _conditions(node.left) + _conditions(node.right)
    return []


_NAMES = "abcd"
_PAIRS = st.tuples(st.sampled_from(_NAMES), st.sampled_from(_NAMES)).filter(lambda p: p[0] != p[1])


@given(order=st.permutations(_NAMES), pairs=st.lists(_PAIRS, max_size=5))
def test_nothing_is_lost_and_nothing_doubled(
    order: list[str], pairs: list[tuple[str, str]]
) -> None:
    conditions = [_equal(left, right) for left, right in pairs]

    tree = build_join_tree([_scan(name) for name in order], conditions)

    assert sorted(scan.alias for scan in scans_of(tree)) == sorted(order)
    assert sorted(_conditions(tree)) == sorted({condition.sql for condition in conditions})
