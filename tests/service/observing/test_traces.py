"""Refreshes as traces, taken by a collector over gRPC."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import psycopg
import pytest

import pgtrickle
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import SettingError, TrickleError
from pgtrickle.model.metrics import OF_EACH_DAEMON, OF_SPARK_USE, OF_THE_LEADER
from pgtrickle.service.observing.courier import Courier
from pgtrickle.settings import POSTGRES, Settings, load_settings
from tests.fixtures.daemons import Daemon, await_
from tests.service.observing.collector import Collector, collecting

_STEPS = {"prepare", "decide", "read", "compute", "merge", "apply", "commit"}


@contextmanager
def traced(database: str, endpoint: str) -> Iterator[tuple[Trickle, psycopg.Connection]]:
    settings = Settings(engine=POSTGRES, otel_endpoint=endpoint)
    with (
        pgtrickle.connect(database, settings=settings) as trickle,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, k int, v int)")
        connection.execute("INSERT INTO t SELECT n, n % 3, n FROM generate_series(1, 9) AS n")
        yield trickle, connection


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as found:
        yield found


def test_a_refresh_is_a_trace_with_its_steps_and_the_history_has_its_id(
    database: str, collector: Collector
) -> None:
    query = "SELECT k, sum(v) AS v FROM t GROUP BY k"
    with traced(database, collector.endpoint) as (trickle, connection):
        trickle.create_stream_table("totals", query)
        connection.execute("UPDATE t SET v = 100 WHERE id = 1")
        report = trickle.refresh_stream_table("totals")
        [last] = trickle.refresh_history("totals", limit=1)
        [(in_sql,)] = connection.execute(
            "SELECT trace_id FROM pgtrickle.get_refresh_history('totals', 1)"
        ).fetchall()

    found = [one for one in collector.spans if one.trace_id.hex() == last.trace_id]
    [root] = [one for one in found if not one.parent_span_id]
    steps = [one for one in found if one.parent_span_id]
    assert in_sql == last.trace_id
    assert root.name == "refresh public.totals"
    assert {one.parent_span_id for one in steps} == {root.span_id}
    assert {one.name for one in steps} >= _STEPS
    assert all(
        root.start_time_unix_nano <= one.start_time_unix_nano <= one.end_time_unix_nano
        and one.end_time_unix_nano <= root.end_time_unix_nano
        for one in steps
    )
    attributes = {one.key: one.value for one in root.attributes}
    assert attributes["pgtrickle.action"].string_value == "DIFFERENTIAL"
    assert attributes["pgtrickle.refresh_id"].int_value == report.refresh_id
    assert attributes["pgtrickle.engine"].string_value == "postgres"
    assert query not in str(collector.requests)


def test_a_failure_is_a_trace_with_its_code_and_without_its_text(
    database: str, collector: Collector
) -> None:
    with traced(database, collector.endpoint) as (trickle, connection):
        trickle.create_stream_table("shares", "SELECT id, 100 / v AS share FROM t")
        connection.execute("UPDATE t SET v = 0 WHERE id = 1")
        with pytest.raises(TrickleError) as caught:
            trickle.refresh_stream_table("shares")
        [last] = trickle.refresh_history("shares", limit=1)

    [root] = [
        one
        for one in collector.spans
        if one.trace_id.hex() == last.trace_id and not one.parent_span_id
    ]
    assert caught.value.trace_id == last.trace_id
    assert (root.status.code, root.status.message) == (2, caught.value.code)
    assert "division" not in str(collector.requests)


def test_without_a_collector_nothing_is_traced(database: str) -> None:
    with traced(database, "") as (trickle, _):
        trickle.create_stream_table("copy", "SELECT id FROM t")
        assert [one.trace_id for one in trickle.refresh_history("copy")] == [None]
        assert trickle._runtime.observers == ()


def test_members_of_a_group_have_a_trace_each(database: str, collector: Collector) -> None:
    with traced(database, collector.endpoint) as (trickle, connection):
        for name in ("left_arm", "right_arm"):
            trickle.create_stream_table(name, "SELECT id, v FROM t")
        trickle.create_stream_table(
            "joined", "SELECT l.id, r.v FROM left_arm AS l JOIN right_arm AS r USING (id)"
        )
        connection.execute("UPDATE t SET v = -1 WHERE id = 1")
        trickle.daemon.refresh_unit(["left_arm", "right_arm", "joined"])
        ids = {one.trace_id for name in ("left_arm", "right_arm", "joined")
               for one in trickle.refresh_history(name, limit=1)}  # fmt: skip

    assert len(ids) == 3
    assert ids <= {one.trace_id.hex() for one in collector.spans}


def test_a_collector_that_is_away_or_frozen_delays_no_refresh(database: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # takes connections, answers nothing
        endpoint = f"http://127.0.0.1:{frozen.getsockname()[1]}"
        with traced(database, endpoint) as (trickle, connection):
            trickle.create_stream_table("copy", "SELECT id, v FROM t")
            durations = []
            for number in range(5):
                connection.execute(f"UPDATE t SET v = {number} WHERE id = 1".encode())
                durations.append(trickle.refresh_stream_table("copy").duration_ms)
            began = time.monotonic()
        closing = time.monotonic() - began

    assert min(durations) < 1000  # an attempt to send lasts five seconds
    assert max(durations) < 4000
    assert closing < 4


def test_what_waits_for_a_receiver_is_bounded() -> None:
    blocked = threading.Event()
    sent: list[int] = []

    def send(batch: Sequence[int]) -> None:
        blocked.wait(30)
        sent.extend(batch)

    courier = Courier("numbers", send, most=10)
    for number in range(1000):
        courier.hand_over([number])
    blocked.set()
    courier.close()

    assert sent[-10:] == list(range(990, 1000))
    assert courier.dropped == 1000 - len(sent)


def test_a_receiver_that_fails_is_tried_again_with_what_comes_next() -> None:
    sent: list[int] = []

    def send(batch: Sequence[int]) -> None:
        if 1 in batch:
            raise OSError
        sent.extend(batch)

    courier = Courier("numbers", send)
    courier.hand_over([1])
    await_(lambda: courier.dropped == 1)
    courier.hand_over([2])
    courier.close()

    assert sent == [2]


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4317", "file:///etc/passwd", "http://"])
def test_an_endpoint_that_is_none_is_refused(database: str, endpoint: str) -> None:
    with (
        pytest.raises(SettingError, match="otel_endpoint"),
        pgtrickle.connect(database, settings=Settings(otel_endpoint=endpoint)),
    ):
        pass


def test_a_database_cannot_say_to_whom_a_process_tells_what_it_does() -> None:
    stored = {"otel_endpoint": "http://attacker.example:4317"}

    assert load_settings({}, stored=stored).otel_endpoint == ""


def test_a_daemon_sends_its_metrics_and_writes_trace_ids_into_its_log(
    database: str, collector: Collector, start: Callable[..., Daemon]
) -> None:
    with traced(database, "") as (trickle, connection):
        trickle.create_stream_table("copy", "SELECT id, v FROM t", schedule="1s")
        daemon = start(
            database,
            "--log-format",
            "json",
            PGTRICKLE_ENGINE=POSTGRES,
            PGTRICKLE_OTEL_ENDPOINT=collector.endpoint,
            PGTRICKLE_OTEL_METRICS_SECONDS="0.5",
        )
        connection.execute("UPDATE t SET v = 100 WHERE id = 1")

        def logged() -> str | None:
            lines = [json.loads(line) for line in daemon.log()]
            found = [one["trace_id"] for one in lines if one.get("message") == "refreshed"]
            return found[0] if found else None

        trace_id = await_(logged)
        await_(lambda: trace_id in {one.trace_id.hex() for one in collector.spans})
        await_(lambda: "pgtrickle_refresh_seconds" in collector.metrics)
        found = collector.metrics
        assert daemon.stop() == 0

    known = {one.name for one in (*OF_EACH_DAEMON, *OF_SPARK_USE, *OF_THE_LEADER)}
    assert set(found) <= known
    [point] = [
        one for one in found["pgtrickle_refresh_seconds"].histogram.data_points if one.attributes
    ]
    assert point.count == sum(point.bucket_counts) > 0
    assert found["pgtrickle_refreshes_total"].sum.is_monotonic
    [leading] = found["pgtrickle_leading"].gauge.data_points
    assert leading.as_double == 1
