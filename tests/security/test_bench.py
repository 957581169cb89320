"""The bench itself: what each role may do, so that an attack that fails fails for our reason."""

from __future__ import annotations

import psycopg
import pytest

from tests.security.bench import REVENUE, Bench


@pytest.fixture
def bench(empty_bench: Bench) -> Bench:
    """Let the test say who makes the catalog, and what is there before."""
    return empty_bench


def test_owner_keeps_a_stream_table_of_what_the_writer_writes(bench: Bench):
    with bench.lab() as lab:
        lab.create("shop.revenue", REVENUE)
        bench.run("writer", "INSERT INTO shop.orders VALUES (4, 'west', 7)")

        lab.refresh("shop.revenue")


def test_attacker_has_no_right_of_his_own(bench: Bench):
    attacker = bench.open("attacker")

    for statement in ("TABLE shop.orders", "CREATE SCHEMA mine", "CREATE TABLE public.t ()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            attacker.execute(statement.encode())
