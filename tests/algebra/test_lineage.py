"""The origins of columns, operator by operator."""

from __future__ import annotations

from pgtrickle.algebra.lineage import Lineage, trace_columns
from tests.sql.queries import lowered


def direct(lineage: Lineage) -> list[set[tuple[str, str, str]]]:
    """Return the origins of each column, in order."""
    return [
        {(origin.table.name, origin.column, how.value) for origin, how in origins.items()}
        for origins in lineage.columns.values()
    ]


def deciding(lineage: Lineage) -> set[tuple[str, str, str]]:
    return {(origin.table.name, origin.column, how.value) for origin, how in lineage.deciding}


def test_a_column_is_its_source_and_an_expression_a_transformation() -> None:
    found = trace_columns(lowered("SELECT t.k, (t.k + t.id) AS s FROM public.t t", columns=2))

    assert direct(found) == [
        {("t", "k", "IDENTITY")},
        {("t", "k", "TRANSFORMATION"), ("t", "id", "TRANSFORMATION")},
    ]
    assert deciding(found) == set()


def test_what_filters_and_joins_decides_the_rows_only() -> None:
    found = trace_columns(
        lowered("SELECT u.c FROM (public.t t JOIN public.u u ON ((t.k = u.id))) WHERE (t.id > 1)")
    )

    assert direct(found) == [{("u", "c", "IDENTITY")}]
    assert deciding(found) == {
        ("t", "k", "JOIN"),
        ("u", "id", "JOIN"),
        ("t", "id", "FILTER"),
    }


def test_each_branch_of_a_union_is_an_origin() -> None:
    found = trace_columns(
        lowered("SELECT t.k FROM public.t t UNION ALL SELECT v.k FROM public.v v")
    )

    assert direct(found) == [{("t", "k", "IDENTITY"), ("v", "k", "IDENTITY")}]


def test_an_aggregate_comes_from_its_arguments_and_its_groups_decide() -> None:
    found = trace_columns(
        lowered("SELECT t.k, sum(t.id) AS s FROM public.t t GROUP BY t.k", columns=2)
    )

    assert direct(found) == [{("t", "k", "IDENTITY")}, {("t", "id", "AGGREGATION")}]
    assert deciding(found) == {("t", "k", "GROUP_BY")}


def test_a_window_may_come_from_all_that_it_sees() -> None:
    found = trace_columns(
        lowered(
            "SELECT t.k, rank() OVER (PARTITION BY t.k ORDER BY t.id) AS r FROM public.t t",
            columns=2,
        )
    )

    first, second = direct(found)
    assert first == {("t", "k", "IDENTITY")}
    assert {(table, column) for table, column, _ in second} >= {("t", "k"), ("t", "id")}
