"""The support table of docs/operators.md tells the truth, row by row."""

from __future__ import annotations

import pytest

from pgtrickle.errors import TrickleError
from tests.labs.lab import Lab
from tools.constructs import Construct, read_examples
from tools.generate_docs import AGGREGATE, OPERATORS, RECOMPUTE, Operator

EXAMPLES = read_examples()
YES = [one for one in EXAMPLES.constructs if one.differential]
NO = [one for one in EXAMPLES.constructs if not one.differential]


def title(row: Construct | Operator) -> str:
    return row.title


@pytest.fixture
def shop(lab: Lab) -> Lab:
    lab.run(*EXAMPLES.schema)
    return lab


@pytest.mark.parametrize("construct", YES, ids=title)
def test_what_says_yes_is_maintained_in_strict_differential_mode(
    shop: Lab, construct: Construct
) -> None:
    check_windows(shop, construct.query, constant=construct.constant)


@pytest.mark.parametrize("construct", YES, ids=title)
def test_what_says_yes_is_maintained_by_postgresql_alone(
    postgres_lab: Lab, construct: Construct
) -> None:
    postgres_lab.run(*EXAMPLES.schema)
    check_windows(postgres_lab, construct.query, constant=construct.constant)


@pytest.mark.parametrize("construct", NO, ids=title)
def test_what_says_no_is_refused(shop: Lab, construct: Construct) -> None:
    with pytest.raises(TrickleError) as caught:
        shop.trickle.create_stream_table("made", construct.query, refresh_mode="DIFFERENTIAL")

    assert caught.value.code == construct.code, repr(caught.value)
    assert caught.value.hint
    assert shop.leftovers() == []
    assert not shop.trickle.validate_query(construct.query).differential


@pytest.mark.parametrize("operator", [*OPERATORS.values(), AGGREGATE, RECOMPUTE], ids=title)
def test_the_example_of_each_operator_is_maintained(shop: Lab, operator: Operator) -> None:
    check_windows(shop, operator.example)


def check_windows(shop: Lab, query: str, *, constant: bool = False) -> None:
    """Maintain a query through every window; its result must really change."""
    assert shop.trickle.validate_query(query).differential
    shop.create("made", query)
    changed = 0
    for statements in EXAMPLES.windows:
        [report] = shop.window(*statements, action="NO_DATA" if constant else "DIFFERENTIAL")
        changed += report.rows_inserted + report.rows_deleted
    assert (changed == 0) == constant
