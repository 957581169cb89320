"""What fails is told as what it is, with the true remedy, and comes back by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.first_week.newcomer import ORDERS, REVENUE, Newcomer
from tests.fixtures.daemons import Daemon, await_

Start = Callable[..., Daemon]
Admin = Callable[..., None]
HASTY = {"PGTRICKLE_MAX_CONSECUTIVE_ERRORS": "1", "PGTRICKLE_SUSPEND_AFTER_SECONDS": "0"}
SHARES = "SELECT sum(100 / amount) AS share FROM orders"


@pytest.fixture
def shares(shop: Newcomer) -> Newcomer:
    """Give the user a stream table that fails as soon as an amount is 0."""
    created = shop.type("create", "shares", "--query", SHARES, "--schedule", "1s")
    assert created.status == 0, created.err
    return shop


def standing(user: Newcomer) -> tuple[str, int]:
    [found] = user.rows(
        "SELECT status, consecutive_errors FROM pgtrickle.pgt_status() WHERE name = 'public.shares'"
    )
    return found


def test_refresh_that_the_callers_timeout_ends_is_cancelled(shop: Newcomer):
    shop.sql("INSERT INTO orders VALUES (4, 'west', 1)")
    shop.engine.interruptions.append(lambda: time.sleep(3))
    with shop.serving():
        said = shop.psql(
            "SET statement_timeout = '1s';", "CALL pgtrickle.refresh_stream_table('revenue');"
        )
        latest = await_(
            lambda: shop.rows(
                "SELECT status, error_code FROM pgtrickle.get_refresh_history('revenue', 1)"
                " WHERE status <> 'RUNNING' AND initiated_by <> 'INITIAL'"
            )
        )

    assert said.code == "57014"
    assert latest == [("CANCELLED", "ST214")]
    assert shop.rows("SELECT status, consecutive_errors FROM pgtrickle.pgt_status()") == [
        ("ACTIVE", 0)
    ]


def test_a_few_errors_in_a_short_time_suspend_nothing(shares: Newcomer, daemon: Start) -> None:
    daemon(shares)
    shares.sql("INSERT INTO orders VALUES (4, 'west', 0)")
    await_(lambda: standing(shares)[1] >= 3)
    assert standing(shares)[0] == "ACTIVE"

    shares.sql("UPDATE orders SET amount = 50 WHERE id = 4")

    await_(lambda: standing(shares) == ("ACTIVE", 0))
    assert shares.rows("TABLE shares") == shares.rows(SHARES)


@pytest.mark.parametrize("mode", ["FULL", "DIFFERENTIAL"])
def test_right_that_is_granted_again_ends_the_trouble(
    newcomer: Newcomer, daemon: Start, admin: Admin, mode: str
) -> None:
    admin(*ORDERS, f"GRANT SELECT, TRIGGER ON orders TO {newcomer.role}")
    options = ("--schedule", "1s", "--refresh-mode", mode)
    assert newcomer.type("create", "revenue", "--query", REVENUE, *options).status == 0
    started = daemon(newcomer, **HASTY)
    admin("INSERT INTO orders VALUES (5, 'east', 1)")  # the daemon compiles the query
    await_(lambda: ("east",) in newcomer.rows("SELECT region FROM revenue"))
    admin(
        f"REVOKE SELECT ON orders FROM {newcomer.role}", "INSERT INTO orders VALUES (4, 'west', 1)"
    )
    told = await_(lambda: [line for line in started.log() if "GRANT SELECT ON" in line])

    admin(f"GRANT SELECT ON orders TO {newcomer.role}")

    await_(lambda: ("west",) in newcomer.rows("SELECT region FROM revenue"))
    assert newcomer.role in told[0]
    assert not [line for line in started.log() if "SUSPENDED" in line]


def test_last_line_of_the_daemon_says_that_a_table_is_suspended(
    shares: Newcomer, daemon: Start
) -> None:
    started = daemon(shares, **HASTY)
    shares.sql("DROP TABLE orders CASCADE")

    await_(lambda: standing(shares)[0] == "SUSPENDED")

    [told] = await_(lambda: [line for line in started.log() if "public.shares: SUSPENDED" in line])
    assert "pgtrickle alter public.shares --status ACTIVE" in told
    remedies = shares.type("errors", "shares").out
    assert "nothing, the next refresh starts anew" not in remedies
    assert "pgtrickle drop public.shares" in remedies


def test_source_that_is_there_again_ends_the_suspension(shares: Newcomer, daemon: Start) -> None:
    started = daemon(shares, **HASTY)
    shares.sql("DROP TABLE orders CASCADE")
    await_(lambda: standing(shares)[0] == "SUSPENDED")

    shares.sql(*ORDERS)

    await_(lambda: standing(shares) == ("ACTIVE", 0), 150)  # it is tried once a minute
    assert any("public.shares" in line and "again" in line for line in started.log())
    assert shares.rows("TABLE shares") == shares.rows(SHARES)
