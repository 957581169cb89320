"""Daemons as processes of their own, and calls from SQL: the leader answers, then its successor."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg

from tests.cli.test_daemon import leader, moment, pid_of
from tests.fixtures.daemons import Daemon, await_

_TAKE_OVER = timedelta(seconds=10)  # as promised
_BELIEVED = timedelta(seconds=11)  # after which a sign of life of who was killed is too old


def ask(connection: psycopg.Connection) -> tuple[str, Any]:
    """Call something that takes no Spark; return the SQLSTATE, and who executed it."""
    try:
        connection.execute("CALL pgtrickle.diamond_groups()")
    except psycopg.Error as error:
        return str(error.sqlstate), None
    [(server,)] = connection.execute(
        "SELECT server FROM pgtrickle.pgt_requests ORDER BY request_id DESC LIMIT 1"
    ).fetchall()
    return "00000", pid_of(server)


def test_leader_executes_requests_and_its_successor_goes_on(
    database: str, start: Callable[..., Daemon]
) -> None:
    first = start(database)
    await_(lambda: leader(database))
    second = start(database)
    await_(lambda: "keeping stream tables fresh; Ctrl-C ends" in second.log())
    with psycopg.connect(database, autocommit=True) as connection:
        answers = {ask(connection) for _ in range(5)}

        first.process.kill()

        killed = moment(database, "SELECT clock_timestamp()")
        await_(lambda: ask(connection) == ("00000", second.process.pid))
        answered = moment(database, "SELECT max(ended_at) FROM pgtrickle.pgt_requests")
        connection.execute("SELECT pg_sleep_until(%s)", [killed + _BELIEVED])
        assert second.stop() == 0
        stopped = ask(connection)

    assert answers == {("00000", first.process.pid)}
    assert answered - killed < _TAKE_OVER
    assert stopped == ("ST601", None)
