"""Lowering: what becomes which algebra, and what is refused, by name and with its place."""

from __future__ import annotations

import pytest

from pgtrickle.algebra.nodes import Query
from pgtrickle.algebra.printer import show, tree
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.bound import Relation
from pgtrickle.sql.refusal import Refusal, unsupported
from tests.sql.queries import INT4, lowered

_GROUPED = "SELECT k, count(*) AS n FROM public.t t GROUP BY k"


def _plan(query: Query) -> str:
    return show(query.node)


def test_the_outermost_expressions_stay_outside_the_plan() -> None:
    query = lowered("SELECT (t.id + 1) AS c0 FROM public.t t")

    assert _plan(query) == "t⁺"
    assert [output.scalar.sql for output in query.outputs] == ['"t_id" + 1']


def test_joins_in_every_spelling_become_one_tree() -> None:
    spellings = [
        "SELECT t.c FROM public.t t, public.u u WHERE (t.id = u.id)",
        "SELECT t.c FROM (public.t t JOIN public.u u ON ((t.id = u.id)))",
        "SELECT t.c FROM (public.t t JOIN public.u u USING (id))",
        "SELECT t.c FROM (public.t t CROSS JOIN public.u u) WHERE (t.id = u.id)",
    ]

    assert {_plan(lowered(sql)) for sql in spellings} == {'(t⁺ ⋈["t_id" = "u_id"] u⁺)'}


def test_derived_tables_and_ctes_dissolve() -> None:
    derived = lowered("SELECT d.x FROM ( SELECT (t.k * 2) AS x FROM public.t t WHERE (k > 1)) d")
    cte = lowered("WITH d AS ( SELECT (k * 2) AS x FROM public.t t WHERE (k > 1)) SELECT x FROM d")

    assert _plan(derived) == _plan(cte) == 'σ["t_k" > 1](t⁺)'
    assert derived.outputs[0].scalar.sql == '"t_k" * 2'


def test_a_cte_used_twice_is_read_twice() -> None:
    query = lowered(
        "WITH d AS ( SELECT k FROM public.t t) SELECT d.k FROM (d JOIN d e ON ((d.k = e.k)))"
    )

    assert _plan(query) == '(t⁺ ⋈["t_k" = "t_2_k"] t_2⁺)'


def test_columns_of_a_cte_can_be_renamed() -> None:
    query = lowered("WITH d(x) AS ( SELECT k FROM public.t t) SELECT d.x FROM d")

    assert query.outputs[0].scalar.sql == '"t_k"'


def test_a_view_is_inlined() -> None:
    view = Relation(
        9, QualifiedName("public", "w"), (Column("x", INT4),), "SELECT k FROM public.t t"
    )

    assert _plan(lowered("SELECT x FROM public.w w WHERE (x > 1)", relations=[view])) == (
        'σ["t_k" > 1](t⁺)'
    )


def test_group_by_and_having() -> None:
    query = lowered(f"{_GROUPED} HAVING (sum(id) > 3)", columns=2)

    assert tree(query.node).splitlines() == [
        'Filter "sum" > 3',
        '  Aggregate by t_k_key: COUNT(*), SUM("t_id_in")',
        '    Project "t_k" as t_k_key, "t_id" as t_id_in',
        "      Scan public.t as t",
    ]


def test_a_call_with_filter_and_distinct() -> None:
    query = lowered("SELECT count(DISTINCT k) FILTER (WHERE (id > 1)) AS c0 FROM public.t t")

    assert 'Aggregate by nothing: COUNT(DISTINCT "t_k_in") filter' in tree(query.node)


def test_distinct_is_an_aggregate_without_calls() -> None:
    assert _plan(lowered("SELECT DISTINCT k FROM public.t t")) == "γ[k](π[k](t⁺))"


def test_unions_in_unions_are_one_union() -> None:
    query = lowered(
        "SELECT t.k FROM public.t t UNION ALL SELECT u.k FROM public.u u"
        " UNION ALL SELECT v.k FROM public.v v"
    )

    assert len(query.node.children) == 3  # type: ignore[union-attr]


def test_order_by_without_limit_is_ignored() -> None:
    assert _plan(lowered("SELECT k FROM public.t t ORDER BY k DESC")) == "t⁺"


_REFUSED = [
    # the query as PostgreSQL prints it, the construct, what is underlined in the user's own text
    ("SELECT k FROM public.t t LIMIT 1", "LIMIT without ORDER BY", "LIMIT"),
    ("SELECT k FROM public.t t OFFSET 1", "LIMIT without ORDER BY", "OFFSET"),
    ("SELECT k FROM public.t t FOR UPDATE OF t", "a locking clause", "FOR"),
    ("SELECT k FROM public.t t TABLESAMPLE bernoulli (1)", "TABLESAMPLE", "TABLESAMPLE"),
    (
        "SELECT t.k FROM public.t t UNION ALL ( SELECT u.k FROM public.u u LIMIT 1)",
        "LIMIT without ORDER BY",
        "LIMIT",
    ),
    ("SELECT DISTINCT ON (k) k FROM public.t t", "DISTINCT ON without ORDER BY", "DISTINCT ON"),
    (
        "SELECT array(SELECT u.k FROM public.u u) AS c0 FROM public.t t",
        "ARRAY(SELECT ...) without ORDER BY",
        "ARRAY",
    ),
]


@pytest.mark.parametrize(
    ("sql", "construct", "marked"),
    _REFUSED,
    ids=[f"{construct}-{number}" for number, (_, construct, _) in enumerate(_REFUSED)],
)
def test_refused(sql: str, construct: str, marked: str) -> None:
    with pytest.raises(Refusal) as refusal:
        lowered(sql)
    error = unsupported(refusal.value, sql)

    assert str(error) == f"no delta rule for {construct}"
    assert error.code == "ST102"
    assert error.hint
    text, marks = error.detail.splitlines()
    assert text[marks.index("^") : marks.rindex("^") + 1].upper() == marked.upper()
