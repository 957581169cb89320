"""The queue of requests: who waits, who executes, what is passed on, what is taken back."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from pgtrickle.service.requests.cancel import CancellableRuntime
from pgtrickle.service.requests.server import RequestServer
from tests.labs.lab import Lab

T = ("CREATE TABLE t (id int PRIMARY KEY, k int)", "INSERT INTO t VALUES (1, 1), (2, 1)")
COUNTS = "SELECT k, count(*) AS n FROM t GROUP BY k"
CREATE = f"CALL pgtrickle.create_stream_table('counts', '{COUNTS}', refresh_mode => 'DIFFERENTIAL')"


def until(condition: Callable[[], Any], seconds: float = 60) -> None:
    """Wait for something that another thread brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def statuses(lab: Lab) -> list[Any]:
    return lab.rows("SELECT verb, status FROM pgtrickle.pgt_requests")


def call_aside(
    lab: Lab, statement: str, options: str = ""
) -> tuple[threading.Thread, psycopg.Connection, list[Any]]:
    """Call something in another session and thread; collect how it ended."""
    connection = psycopg.connect(lab.trickle.dsn, autocommit=True, options=options)
    ended: list[Any] = []

    def call() -> None:
        try:
            ended.append(connection.execute(statement.encode()).fetchall())
        except psycopg.Error as error:
            ended.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=call)
    thread.start()
    return thread, connection, ended


def test_call_creates_and_refreshes(served: Lab):
    served.run(*T)
    served.queries["counts"] = COUNTS

    created = served.value(CREATE)
    served.check("counts")
    served.run("INSERT INTO t VALUES (3, 3)")
    refreshed = served.value("CALL pgtrickle.refresh_stream_table('counts')")

    served.check("counts")
    assert (created["name"], created["status"]) == ("public.counts", "created")
    assert (refreshed["action"], refreshed["rows_inserted"]) == ("DIFFERENTIAL", 1)
    assert statuses(served) == [
        ("create_stream_table", "COMPLETED"),
        ("refresh_stream_table", "COMPLETED"),
    ]


def test_without_a_daemon_a_call_fails_at_once(lab: Lab):
    lab.run(*T)

    began = time.monotonic()
    with pytest.raises(psycopg.Error) as caught:
        lab.run(CREATE)

    assert time.monotonic() - began < 10  # a call that waits does so for minutes
    assert caught.value.sqlstate == "ST601"
    assert "pgtrickle run" in (caught.value.diag.message_hint or "")
    assert statuses(lab) == []


def test_error_arrives_with_code_detail_and_hint(served: Lab):
    served.run(*T)

    with pytest.raises(psycopg.Error) as caught:
        served.run("CALL pgtrickle.create_stream_table('made', 'SELECT nothing FROM t')")

    assert caught.value.sqlstate == "ST105"
    assert "nothing" in str(caught.value)
    assert caught.value.diag.message_hint
    assert statuses(served) == [("create_stream_table", "FAILED")]


def test_skip_is_a_notice_with_its_reason(served: Lab):
    served.run(*T, CREATE)
    notices: list[str] = []
    served.connection.add_notice_handler(lambda one: notices.append(one.message_primary or ""))

    served.run("CALL pgtrickle.refresh_stream_table('counts')")

    assert [text.split(": ")[:2] for text in notices] == [["public.counts", "NO_DATA"]]


def test_transaction_block_that_has_written_is_told_what_to_do(served: Lab):
    served.run(*T)

    with pytest.raises(psycopg.Error) as caught, served.connection.transaction():
        served.run("INSERT INTO t VALUES (3, 3)", CREATE)

    assert caught.value.sqlstate == "ST605"
    assert "submit_request" in (caught.value.diag.message_hint or "")


def test_transaction_block_that_has_only_read_cannot_wait(served: Lab):
    served.run(*T)

    with pytest.raises(psycopg.Error) as caught, served.connection.transaction():
        served.run("SELECT 1", CREATE)

    assert caught.value.sqlstate == "ST605"
    assert statuses(served) == []


def test_submitted_in_a_block_is_done_after_its_commit(served: Lab):
    served.run(*T, CREATE, "INSERT INTO t VALUES (3, 3)")
    served.queries["counts"] = COUNTS
    with served.connection.transaction():
        request = served.value(
            """SELECT pgtrickle.submit_request('refresh_stream_table', '{"name": "counts"}')"""
        )
        time.sleep(0.1)
        ask = f"SELECT status FROM pgtrickle.requests WHERE request_id = {request}"
        assert served.value(ask) == "QUEUED"

    until(lambda: served.value(ask) == "COMPLETED")
    served.check("counts")


def sleeps(lab: Lab, caller: psycopg.Connection) -> bool:
    """Tell whether a caller is in a long sleep between two looks at his request."""
    return bool(
        lab.value(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            " AND xact_start < clock_timestamp() - interval '0.1 s'"
            f" AND pid = {caller.info.backend_pid}"
        )
    )


def waits_since(lab: Lab, caller: psycopg.Connection) -> Any:
    """Return since when a caller has been waiting for a lock; None if he is not."""
    pid = caller.info.backend_pid
    return lab.value(f"SELECT max(waitstart) FROM pg_locks WHERE NOT granted AND pid = {pid}")


def test_cancelled_while_it_waits_is_not_executed(lab: Lab):
    lab.run(*T)
    with RequestServer(lab.trickle._runtime) as server:  # alive, and busy with something else
        thread, connection, ended = call_aside(lab, CREATE)
        until(lambda: statuses(lab) == [("create_stream_table", "QUEUED")])
        # Who has waited for long looks less often.
        lab.run("UPDATE pgtrickle.pgt_requests SET requested_at = requested_at - interval '1 min'")
        until(lambda: sleeps(lab, connection))
        connection.cancel()
        thread.join()

        assert server.serve() == 0
    assert ended[0].sqlstate == "57014"
    assert lab.leftovers() == []


def test_cancelled_while_it_looks_is_not_executed(lab: Lab):
    lab.run(*T)
    with RequestServer(lab.trickle._runtime) as server:
        thread, connection, ended = call_aside(lab, CREATE)
        until(lambda: statuses(lab) == [("create_stream_table", "QUEUED")])
        with psycopg.connect(lab.trickle.dsn) as blocker:
            blocker.execute("LOCK TABLE pgtrickle.pgt_requests IN ACCESS EXCLUSIVE MODE")
            until(lambda: waits_since(lab, connection))
            before = waits_since(lab, connection)
            connection.cancel()
            until(lambda: waits_since(lab, connection) != before)  # it has heard of it
        thread.join()

        assert server.serve() == 0
    assert ended[0].sqlstate == "57014"
    assert lab.leftovers() == []


def test_vanished_callers_request_is_not_executed(lab: Lab):
    lab.run(*T)
    with RequestServer(lab.trickle._runtime) as server:
        thread, connection, _ = call_aside(lab, CREATE)
        until(lambda: statuses(lab) == [("create_stream_table", "QUEUED")])
        lab.run(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        thread.join()
        lab.run("UPDATE pgtrickle.pgt_requests SET seen_at = seen_at - interval '11 seconds'")

        assert server.serve() == 0
        server._sweep()
    assert statuses(lab) == [("create_stream_table", "CANCELLED")]
    assert lab.leftovers() == []


def test_cancelled_while_it_runs_is_stopped_and_undone(served: Lab):
    """At the moment between reading and writing: a first load that must not be committed."""
    served.run(*T)
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(60)

    served.before_next_stage(hold)
    thread, connection, ended = call_aside(served, CREATE)
    assert reached.wait(60)

    connection.cancel()
    thread.join()
    until(lambda: any(one.cancelled for one in _running()))
    go_on.set()

    until(lambda: statuses(served) == [("create_stream_table", "CANCELLED")])
    assert ended[0].sqlstate == "57014"
    assert served.leftovers() == []


@pytest.mark.parametrize("how", ["statement_timeout", "cancel", "gone"])
def test_refresh_that_its_caller_calls_off_is_no_failure(served: Lab, how: str):
    served.run(*T, CREATE, "INSERT INTO t VALUES (3, 3)")
    served.queries["counts"] = COUNTS
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(60)

    served.before_next_stage(hold)
    thread, connection, ended = call_aside(
        served,
        "CALL pgtrickle.refresh_stream_table('counts')",
        options="-c statement_timeout=1s" if how == "statement_timeout" else "",
    )
    assert reached.wait(60)
    if how == "cancel":
        connection.cancel()
    if how == "gone":
        served.run(f"SELECT pg_terminate_backend({connection.info.backend_pid})")
        served.run("UPDATE pgtrickle.pgt_requests SET seen_at = seen_at - interval '11 seconds'")
    thread.join()
    until(lambda: any(one.cancelled for one in _running()))
    go_on.set()

    until(lambda: ("refresh_stream_table", "CANCELLED") in statuses(served))
    [latest, *_] = served.trickle.refresh_history("counts")
    assert (latest.status.value, latest.error_code) == ("CANCELLED", "ST214")
    table = served.trickle.get_stream_table("counts")
    assert (table.status.value, table.consecutive_errors) == ("ACTIVE", 0)
    assert table.last_error_message is None
    assert served.trickle.insight.diagnose_errors("counts") == []
    assert served.value("SELECT count(*) FROM pgtrickle.health_check() WHERE severity <> 'OK'") == 0
    assert ended
    served.refresh("counts")


def _running() -> list[CancellableRuntime]:
    """Return what is being executed, by whichever server of this process is open."""
    servers = [one for one in gc.get_objects() if isinstance(one, RequestServer)]
    return [one for server in servers for one in list(server._running.values())]


def test_timeout_cancels(lab: Lab):
    lab.run(*T, "SET pg_trickle.request_timeout = 0.2")
    try:
        with RequestServer(lab.trickle._runtime) as server:
            with pytest.raises(psycopg.Error) as caught:
                lab.run(CREATE)
            assert server.serve() == 0
    finally:
        lab.run("RESET pg_trickle.request_timeout")

    assert caught.value.sqlstate == "ST602"
    assert "request_timeout" in (caught.value.diag.message_hint or "")


def test_daemon_that_dies_leaves_no_caller_waiting(lab: Lab):
    lab.run(*T)
    with RequestServer(lab.trickle._runtime):
        thread, _, ended = call_aside(lab, CREATE)
        until(lambda: statuses(lab) == [("create_stream_table", "QUEUED")])
    thread.join(60)

    assert ended[0].sqlstate == "ST604"


def test_request_of_a_dead_server_is_ended_by_the_next(lab: Lab):
    lab.run(
        "INSERT INTO pgtrickle.pgt_requests (verb, arguments, status, server)"
        " VALUES ('refresh_stream_table', '{}', 'RUNNING', 'long gone')"
    )

    with RequestServer(lab.trickle._runtime):
        pass

    assert statuses(lab) == [("refresh_stream_table", "FAILED")]


def test_two_servers_share_the_queue(served: Lab):
    served.run(*T, CREATE)
    ask = """SELECT pgtrickle.submit_request('refresh_stream_table', '{"name": "counts"}')"""
    with RequestServer(replace(served.trickle._runtime, owner="another")) as other:
        served.run(*[ask] * 10)
        other.serve()
        until(
            lambda: (
                served.value(
                    "SELECT count(*) FROM pgtrickle.requests WHERE status IN ('QUEUED', 'RUNNING')"
                )
                == 0
            )
        )

    # Both meet the lease of the other and wait for it; none is done twice or left.
    assert [status for _, status in statuses(served)] == ["COMPLETED"] * 11


def test_workers_execute_side_by_side(lab: Lab):
    lab.run(*T)
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(60)

    lab.before_next_stage(hold)
    with RequestServer(lab.trickle._runtime, workers=2):
        thread, _, ended = call_aside(lab, CREATE)
        assert reached.wait(60)
        meanwhile = lab.value(f"CALL pgtrickle.validate_query('{COUNTS}')")
        go_on.set()
        thread.join(60)

    assert meanwhile["differential"] is True
    [[(created,)]] = ended
    assert created["status"] == "created"


def test_closing_brings_to_an_end_what_was_begun(lab: Lab):
    lab.run(*T)
    reached, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        go_on.wait(60)

    lab.before_next_stage(hold)
    server = RequestServer(lab.trickle._runtime, workers=1)
    thread, _, ended = call_aside(lab, CREATE)
    assert reached.wait(60)
    closing = threading.Thread(target=server.close)
    closing.start()
    time.sleep(1.5)  # longer than the signs of life are apart
    served_meanwhile = lab.value("SELECT pgtrickle.is_served()")
    go_on.set()
    closing.join(60)
    thread.join(60)

    assert served_meanwhile is True
    [[(created,)]] = ended
    assert created["status"] == "created"
    assert lab.value("SELECT pgtrickle.is_served()") is False


def test_who_does_not_lead_takes_nothing_on_and_is_not_heard(lab: Lab):
    leading = threading.Event()
    is_served = "SELECT pgtrickle.is_served()"
    with RequestServer(lab.trickle._runtime, leads=leading.is_set, workers=1) as server:
        lab.run("SELECT pgtrickle.submit_request('diamond_groups', '{}')")
        heard, executed = lab.value(is_served), server.serve()
        leading.set()
        until(lambda: statuses(lab) == [("diamond_groups", "COMPLETED")])
        until(lambda: lab.value(is_served))
        leading.clear()
        until(lambda: not lab.value(is_served))

    assert (heard, executed) == (False, 0)


@pytest.mark.parametrize(
    ("verb", "arguments", "why"),
    [
        ("fly", "{}", "there is no request"),
        ("drop_stream_table", "{}", '"name" is missing'),
        ("drop_stream_table", '{"name": 7}', "another type"),
        ("drop_stream_table", '{"name": "t", "force": true}', "not among its arguments"),
        ("bulk_create", '{"definitions": [7]}', "an object"),
    ],
)
def test_request_by_hand_that_makes_no_sense(served: Lab, verb: str, arguments: str, why: str):
    with pytest.raises(psycopg.Error) as caught:
        served.run(f"CALL pgtrickle.perform_request('{verb}', '{arguments}')")

    assert (caught.value.sqlstate, why in str(caught.value)) == ("ST605", True)
