"""The daemon beside requests, without its server, and what it says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPConnection
from urllib.parse import urlsplit

from tests.first_week.newcomer import Newcomer
from tests.fixtures.daemons import Daemon, await_
from tests.fixtures.psql import Said
from tests.fixtures.restartable import OwnServer

Start = Callable[..., Daemon]
_COMPARING = (
    "SELECT pid FROM pg_stat_activity WHERE query LIKE '%EXCEPT ALL%'"
    " AND state = 'active' AND pid <> pg_backend_pid()"
)
_NOTICED = 12.0  # seconds, as promised


def asked(address: str, path: str) -> tuple[int, str]:
    """Ask a daemon something, as a pod is asked."""
    parts = urlsplit(address)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def ready(address: str) -> bool:
    return asked(address, "/ready")[0] == HTTPStatus.OK


def metric(address: str, name: str) -> str:
    _, page = asked(address, "/metrics")
    [value] = [line.split()[-1] for line in page.splitlines() if line.startswith(f"{name}{{")]
    return value


def test_requests_that_hold_a_stream_table_are_no_failures(shop: Newcomer, daemon: Start) -> None:
    daemon(shop)
    verified = [shop.psql("CALL pgtrickle.verify_stream_table('revenue');") for _ in range(8)]

    shop.sql("INSERT INTO orders VALUES (4, 'west', 1)")

    await_(lambda: ("west",) in shop.rows("SELECT region FROM revenue"), 10)
    assert {said.code for said in verified} == {None}
    assert (
        shop.rows("SELECT status FROM pgtrickle.refresh_timeline() WHERE status <> 'COMPLETED'")
        == []
    )
    assert shop.rows("SELECT consecutive_errors FROM pgtrickle.pgt_status()") == [(0,)]


def test_long_verify_does_not_keep_a_stream_table_from_following(
    shop: Newcomer, daemon: Start
) -> None:
    shop.sql(
        "CREATE FUNCTION slowly(amount numeric) RETURNS numeric IMMUTABLE LANGUAGE sql"
        " BEGIN ATOMIC SELECT amount FROM pg_sleep(0.5); END",
        "INSERT INTO orders SELECT n, 'east', n FROM generate_series(10, 29) AS n",
    )
    query = "SELECT id, slowly(amount) AS amount FROM orders"
    assert shop.type("create", "slow", "--query", query, "--schedule", "1s").status == 0
    daemon(shop)
    verified: list[Said] = []
    call = "CALL pgtrickle.verify_stream_table('slow');"
    asking = threading.Thread(target=lambda: verified.append(shop.psql(call)))
    asking.start()
    await_(lambda: shop.rows(_COMPARING))

    shop.sql("INSERT INTO orders VALUES (4, 'west', 1)")

    await_(lambda: shop.rows("SELECT id FROM slow WHERE id = 4"), 10)
    assert verified == []  # it is still being compared
    assert shop.rows(_COMPARING)
    asking.join()
    assert '"ok": true' in verified[0].out
    assert shop.rows("SELECT DISTINCT consecutive_errors FROM pgtrickle.pgt_status()") == [(0,)]


def test_daemon_whose_server_is_gone_is_soon_not_ready(
    own_server: OwnServer, newcomer: Newcomer, daemon: Start
) -> None:
    newcomer.dsn = own_server.dsn
    newcomer.type("init")
    started = daemon(newcomer, "--health-port", "0", "--health-address", "127.0.0.2")
    await_(lambda: ready(started.health))
    told = ("pgtrickle_ready", "pgtrickle_leading")
    assert [metric(started.health, name) for name in told] == ["1.0", "1.0"]
    assert urlsplit(started.health).hostname == "127.0.0.2"

    own_server.stop()

    began = time.monotonic()
    await_(lambda: not ready(started.health))
    await_(lambda: [metric(started.health, name) for name in told] == ["0.0", "0.0"])
    assert time.monotonic() - began < _NOTICED


def test_log_is_json_throughout_and_the_second_daemon_says_that_it_stands_by(
    shop: Newcomer, daemon: Start
) -> None:
    first = daemon(shop, "--log-format", "json")
    second = daemon(shop, "--log-format", "json")
    shop.sql("INSERT INTO orders VALUES (4, 'west', 1)", "DROP TABLE orders CASCADE")

    await_(lambda: any("standing by" in line for line in second.log()))
    await_(lambda: any("ST301" in line for line in first.log()))
    assert (first.stop(), second.stop()) == (0, 0)
    documents = [json.loads(line) for one in (first, second) for line in one.log()]

    assert all(isinstance(document, dict) for document in documents)
