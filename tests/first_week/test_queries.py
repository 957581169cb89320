"""Queries that were refused or counted in two ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.first_week.newcomer import Newcomer
from tests.fixtures.daemons import Daemon, await_


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("char(5)", "'a', 'b'"),
        ("text[]", "'{a,b}', '{c}'"),
        ("int4range", "'[1,3)', '[5,9)'"),
        ("mood", "'sad', 'glad'"),
    ],
)
def test_rollup_pads_keys_of_every_type_with_null(newcomer: Newcomer, type_: str, values: str):
    newcomer.sql("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    first, second = values.split(", ")
    newcomer.sql(
        f"CREATE TABLE sales (id int PRIMARY KEY, kind {type_}, amount int)",
        f"INSERT INTO sales VALUES (1, {first}, 1), (2, {second}, 2), (3, {first}, 4)",
    )
    query = "SELECT kind, sum(amount) AS total FROM sales GROUP BY ROLLUP (kind)"

    created = newcomer.type("create", "totals", "--query", query, "--refresh-mode", "DIFFERENTIAL")

    assert created.status == 0, created.err
    newcomer.sql("DELETE FROM sales WHERE id = 2")
    assert newcomer.type("refresh", "totals").status == 0
    assert newcomer.rows("SELECT kind::text, total FROM totals") == newcomer.rows(
        f"SELECT kind::text, total FROM ({query}) AS q"
    )


def test_updated_row_counts_once_in_the_history_and_for_the_fuse(shop: Newcomer):
    with shop.serving():
        fuse = "fuse => 'on', fuse_ceiling => 1"
        said = shop.psql(f"CALL pgtrickle.alter_stream_table('revenue', {fuse});")
    assert said.code is None, said.err
    shop.sql("UPDATE orders SET amount = amount + 1 WHERE id = 1", "SELECT pg_sleep(1)")

    passed = shop.type("run", "--once")

    assert passed.status == 0, passed.err
    latest, *_ = shop.type("history", "revenue", "--json").document["refreshes"]
    assert (latest["action"], latest["changed_rows"]) == ("DIFFERENTIAL", 1)
    assert shop.rows("SELECT fuse_state FROM pgtrickle.fuse_status()") == [("armed",)]


def test_passing_time_that_changes_nothing_leaves_no_history(
    shop: Newcomer, daemon: Callable[..., Daemon]
):
    query = "SELECT id FROM orders WHERE now() < '2999-01-01'"
    assert shop.type("create", "recent", "--query", query, "--schedule", "1s").status == 0
    looked = "SELECT last_refresh_at FROM pgtrickle.stream_tables_info WHERE pgt_name = 'recent'"
    before = shop.value(looked)
    daemon(shop)

    await_(lambda: (shop.value(looked) - before).total_seconds() > 3)

    assert len(shop.rows("SELECT * FROM pgtrickle.get_refresh_history('recent')")) == 1
