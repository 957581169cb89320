"""What is known to be amiss with queries of the corpus: a list that is exact, and shall shrink.

``make corpus`` fails both on what the list does not have and on what it has in vain: whoever mends
a rule takes its queries off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tests.workloads.outcome import Outcome


class Kind(Enum):
    """What may be amiss, the worst first."""

    EXPLODES = "not played, for it takes all time or memory"
    FAILS = "fails or differs"
    REFUSED = "refused: computed as a whole"
    DIGITS = "equal, and not as text"


@dataclass(frozen=True, slots=True)
class Finding:
    """A query that is not as it should be: the reason, and a part of the message it is told by."""

    kind: Kind
    reason: str
    message: str = ""
    engines: tuple[str, ...] = ("duckdb", "postgres", "spark")


_OTHERWISE = "read otherwise"

KNOWN: dict[str, Finding] = {
    # SELECT w, count(*) FROM o JOIN i USING (k) GROUP BY w, with w numeric: 0.5 is shown as 0.500
    **dict.fromkeys(
        ("digits_weights_as_groups", "ratios_weight_by_price"),
        Finding(
            Kind.DIGITS,
            "numerics without a scale get the digits of the longest one, as a key or by max()",
            _OTHERWISE,
            engines=("duckdb", "spark"),
        ),
    ),
    # SELECT p FROM o UNION ALL SELECT w FROM i, with p numeric(7, 2): 102.30 is shown as 102.3
    "digits_union_of_scales": Finding(
        Kind.DIGITS,
        "the branches of a UNION have different scales",
        _OTHERWISE,
        engines=("duckdb", "spark"),
    ),
    # SELECT k, avg(p / l) AS a FROM o JOIN i USING (k) GROUP BY k, compared with its own average
    "digits_averages_of_averages": Finding(
        Kind.DIGITS,
        "an average of quotients has four more zeros",
        _OTHERWISE,
        engines=("duckdb", "spark"),
    ),
    # SELECT k, sum(n * p) FROM o JOIN i USING (k) GROUP BY k: 918.75 is shown as 918.75000
    **dict.fromkeys(
        (
            "channels_profit_and_loss",
            "digits_sums_of_case",
            "hierarchies_category_tree",
            "hierarchies_sales_of_teams",
            "ratios_same_month_last_year",
            "ratios_share_in_category",
            "ratios_year_over_year",
            "reused_above_overall",
            "reused_chained",
            "reused_half_years",
            "rollups_sales_by_place",
            "scalars_pivot",
            "star_holiday_baskets",
            "star_margin_by_maker",
            "star_revenue_by_region",
            "topk_best_store_of_month",
            "topk_items_of_category",
            "topk_ten_customers",
            "wide_common_items",
            "wide_everything_of_a_sale",
        ),
        Finding(
            Kind.DIGITS,
            "sums of products with an integer, and of CASE with one, have more zeros on DuckDB",
            _OTHERWISE,
            engines=("duckdb",),
        ),
    ),
    # SELECT (SELECT sum(n * p) FROM o), (SELECT sum(p) FROM r), ...: one aggregate of a UNION ALL
    "scalars_one_row_report": Finding(
        Kind.DIGITS,
        "the NULL of a numeric has three decimals on DuckDB, and so has its column in a UNION",
        _OTHERWISE,
        engines=("duckdb",),
    ),
    # SELECT (n + k2) / 2, count(*) FROM o JOIN i USING (k) GROUP BY (n + k2) / 2
    **dict.fromkeys(
        ("dates_age_classes", "funnels_retention"),
        Finding(
            Kind.FAILS,
            "a division of integers of two tables has a fraction on DuckDB",
            "answered by PostgreSQL alone: PostgreSQL could not do this (SQLSTATE 22P02)",
            engines=("duckdb",),
        ),
    ),
}


def left_out(engine: str) -> dict[str, Finding]:
    """Return the queries that an engine is spared."""
    return {
        name: known
        for name, known in KNOWN.items()
        if known.kind is Kind.EXPLODES and engine in known.engines
    }


def find(outcome: Outcome) -> Finding | None:
    """Return what is amiss with a query that was played, with the whole message."""
    seen = (
        (Kind.FAILS, outcome.failure),
        (Kind.REFUSED, outcome.refusal),
        (Kind.DIGITS, outcome.text_difference),
    )
    for kind, message in seen:
        if message is not None:
            one_line = " ".join(message.split())
            return Finding(kind, one_line, one_line)
    return None


def surprises(outcomes: Iterable[Outcome], engine: str) -> Iterator[str]:
    """Yield where the outcomes on an engine are not what the list says."""
    for outcome in outcomes:
        found = find(outcome)
        known = KNOWN.get(outcome.query)
        if known is not None and engine not in known.engines:
            known = None
        if known is None and found is not None:
            yield f"new: {outcome.query}: {found.kind.value}: {found.reason}"
        elif known is not None and found is None:
            yield f"mended, take it off the list: {outcome.query}: {known.reason}"
        elif known is not None and found is not None and not _same(known, found):
            yield f"other than on the list: {outcome.query}: {found.kind.value}: {found.reason}"


def _same(known: Finding, found: Finding) -> bool:
    return known.kind is found.kind and known.message in found.message
