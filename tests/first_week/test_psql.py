"""A session of psql, in which one thing after the other is held wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.first_week.newcomer import REVENUE, Newcomer

VERIFY = "CALL pgtrickle.verify_stream_table('revenue');"


@pytest.fixture
def served(shop: Newcomer) -> Iterator[Newcomer]:
    with shop.serving():
        yield shop


def test_call_in_a_transaction_block_says_what_to_do(served: Newcomer):
    said = served.psql("BEGIN;", VERIFY, "ROLLBACK;", VERIFY)

    assert said.code == "ST605"
    assert "HINT:  COMMIT or ROLLBACK first, then CALL" in said.err
    assert '"ok": true' in said.out  # the second one


def test_error_is_a_few_lines_long(served: Newcomer):
    said = served.psql(
        "CALL pgtrickle.create_stream_table('broken', 'SELECT nothing FROM orders');"
    )

    assert said.code == "ST105"
    assert len(said.context) == 1


def test_explanation_is_not_padded(served: Newcomer):
    said = served.psql("CALL pgtrickle.explain('revenue');")

    assert "stream table public.revenue" in said.err
    assert not [line for line in said.err.splitlines() if line != line.rstrip(" +")]


def test_list_of_tables_says_what_a_stream_table_is(served: Newcomer):
    served.sql("COMMENT ON TABLE orders IS 'what we sold'")
    served.psql("CALL pgtrickle.alter_stream_table('revenue', schedule => '5m');")

    listed = served.psql(r"\d+").out

    assert f"pgtrickle stream table, schedule 5m, query: {REVENUE}" in listed
    assert "what we sold" in listed
