"""Everything from SQL alone: the daemon, with Spark, does what sessions call for."""

from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg

from tests.cli.test_daemon import leader
from tests.fixtures.daemons import Daemon, await_

ORDERS = "SELECT c.region, count(*) AS n FROM o JOIN c ON c.id = o.c GROUP BY c.region"
LARGE = "SELECT id, amount FROM o WHERE amount > 50"


def test_life_of_stream_tables_from_sql(database: str, start: Callable[..., Daemon]) -> None:
    daemon = start(database)
    await_(lambda: leader(database))
    with psycopg.connect(database, autocommit=True) as user:
        await_(lambda: user.execute("SELECT pgtrickle.is_served()").fetchall() == [(True,)])
        user.execute(
            "CREATE TABLE c (id int PRIMARY KEY, region text);"
            "CREATE TABLE o (id int PRIMARY KEY, c int, amount int);"
            "INSERT INTO c SELECT n, 'r' || n % 3 FROM generate_series(1, 10) AS n;"
            "INSERT INTO o SELECT n, n % 10 + 1, n FROM generate_series(1, 100) AS n"
        )

        def create(name: str, query: str) -> None:
            with psycopg.connect(database, autocommit=True) as other:
                other.execute(
                    "CALL pgtrickle.create_stream_table(%s, %s, schedule => '1h',"
                    " refresh_mode => 'DIFFERENTIAL')",
                    [name, query],
                )

        # Two first loads side by side, on one Spark.
        threads = [
            threading.Thread(target=create, args=one)
            for one in (("orders", ORDERS), ("large", LARGE))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        user.execute("DELETE FROM o WHERE id % 4 = 0")
        [(report,)] = user.execute("CALL pgtrickle.refresh_stream_table('orders')").fetchall()
        user.execute("CALL pgtrickle.write_and_refresh('UPDATE o SET amount = 51', 'large')")
        verified = [
            user.execute("CALL pgtrickle.verify_stream_table(%s)", [name]).fetchall()[0][0]["ok"]
            for name in ("orders", "large")
        ]
        user.execute("CALL pgtrickle.bulk_drop_stream_tables('{orders, large}')")
        left = user.execute("SELECT name FROM pgtrickle.pgt_status()").fetchall()

    assert report["action"] == "DIFFERENTIAL"
    assert verified == [True, True]
    assert left == []
    assert daemon.stop() == 0
