"""What a relay delivers to Kafka: rows a second, and the time from a commit to the consumer.

    python -m benchmarks.relay [--rows N] [--seconds N] [--rate N]

First a relay delivers the contents of a stream table, then the changes that its outbox holds, as
fast as it can: 3,000,000 of each take a minute at 50,000 rows a second.  Then a writer commits so
many rows a second, each commit is refreshed at once, and a consumer that reads what is committed
notes when it sees the last row of each.  PostgreSQL, relay, Kafka and consumer share the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
from confluent_kafka import Consumer, TopicPartition

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.relay.envelopes import Envelope, decode
from pgtrickle.settings import POSTGRES, Settings
from tests.relay.servers import free_port, kafka_server
from tests.relay.test_kafka import make_topic

_TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY, customer int, price numeric(12, 2))"
_FILL = """
    INSERT INTO orders
    SELECT i, i %% 5000, (i * 7 %% 100000) / 100.0 FROM generate_series(%s::int, %s::int) AS i
"""
_CHANGE = "UPDATE orders SET price = price + 1 WHERE id > %s AND id <= %s"
_QUERY = "SELECT id, customer, price FROM orders"
_BATCH = 10_000  # changed rows of a refresh
_COMMITS_A_SECOND = 10
_PARTITIONS = 3
_PATIENCE = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=500_000, help="of contents, and of changes")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=int, default=1_000, help="rows a second, for the latency")
    parser.add_argument("--inflight", type=int, default=10_000, help="sink_max_inflight")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        folder.chmod(0o711)
        settings = Settings(engine=POSTGRES, cost_model_safety_margin=0.0)
        with (
            start_embedded(folder / "home") as server,
            kafka_server(folder, free_port(), free_port()) as broker,
            pgtrickle.connect(server.dsn, settings=settings, init=True) as trickle,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            make_topic(broker, "changes", partitions=_PARTITIONS, largest=1_000_000)
            bench = _Bench(trickle, connection, broker)
            bench.load(given.rows, given.inflight)
            fast = [bench.measure_contents(given.rows), bench.measure_changes(given.rows)]
            soon = bench.measure_latency(given.rate, given.seconds)
            results = describe_run(
                "benchmarks.relay",
                argv,
                connection,
                title="A relay to Kafka, in transactions",
                tables=[
                    {"columns": ["what", "rows", "s", "rows/s"], "rows": fast},
                    {
                        "columns": ["rows/s", "commits", "p50 ms", "p99 ms", "most ms"],
                        "rows": [soon],
                    },
                ],
                notes=[
                    f"All on one machine. Load at the end, with others: {os.getloadavg()[0]:.1f}.",
                ],
            )
    print_tables(results)
    if given.output:
        write_results(given.output, results)
    return 0


class _Bench:
    """A stream table, its outbox, and a pipeline to a topic."""

    def __init__(
        self, trickle: pgtrickle.Trickle, connection: psycopg.Connection, broker: str
    ) -> None:
        self._trickle, self._connection, self._broker = trickle, connection, broker
        self._seen: dict[int, float] = {}
        self._up_to = 0

    def load(self, rows: int, inflight: int) -> None:
        """Fill the stream table."""
        say(f"loading {rows:,} rows")
        self._connection.execute(_TABLE)
        self._connection.execute(_FILL, [1, rows])
        self._trickle.create_stream_table("s", _QUERY, refresh_mode="DIFFERENTIAL")
        self._trickle.outbox.enable_outbox("s")
        options = {"bootstrap_servers": self._broker, "topic": "changes"}
        self._trickle.relay.create_relay_pipeline(
            "p", "s", "kafka", options, sink_max_inflight=inflight, poll_ms=10
        )

    def measure_contents(self, rows: int) -> list[object]:
        """Deliver all rows with which the pipeline begins."""
        say("delivering the contents")
        return self._deliver("contents", rows)

    def measure_changes(self, rows: int) -> list[object]:
        """Deliver what the outbox holds."""
        for first in range(0, rows, _BATCH):
            self._connection.execute(_CHANGE, [first, first + _BATCH])
            self._trickle.refresh_stream_table("s")
        say("delivering the changes")
        return self._deliver("changes", rows)

    def _deliver(self, what: str, rows: int) -> list[object]:
        began = time.perf_counter()
        [done] = self._trickle.relay.run_relay(once=True)
        took = time.perf_counter() - began
        if done.lag_entries or done.error_code:
            raise SystemExit(f"not delivered: {done}")
        return [what, rows, round(took, 1), round(rows / took)]

    def measure_latency(self, rate: int, seconds: float) -> list[object]:
        """Commit, refresh and deliver so many rows a second; note when a consumer sees them."""
        say(f"{rate:,} rows a second for {seconds:g} s")
        size = max(1, rate // _COMMITS_A_SECOND)
        [(last,)] = self._connection.execute("SELECT max(id) FROM orders").fetchall()
        stop, ready = threading.Event(), threading.Event()
        threads = [
            threading.Thread(target=self._consume, args=(stop, ready)),
            threading.Thread(target=lambda: self._trickle.relay.run_relay(stop=stop)),
        ]
        for thread in threads:
            thread.start()
        ready.wait(_PATIENCE)
        committed: dict[int, float] = {}
        began = time.perf_counter()
        try:
            for number in range(int(seconds * _COMMITS_A_SECOND)):
                due = began + number / _COMMITS_A_SECOND
                time.sleep(max(0.0, due - time.perf_counter()))
                self._connection.execute(_FILL, [last + 1, last + size])
                last += size
                committed[last] = time.perf_counter()
                self._trickle.refresh_stream_table("s")
            took = time.perf_counter() - began
            _wait(lambda: all(one in self._seen for one in committed))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        spent = sorted((self._seen[one] - at) * 1000 for one, at in committed.items())
        p99 = spent[min(len(spent) - 1, int(len(spent) * 0.99))]
        reached = round(len(committed) * size / took)
        return [reached, len(spent), *map(round, (statistics.median(spent), p99, spent[-1]))]

    def _consume(self, stop: threading.Event, ready: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker,
                "group.id": "bench",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        ends = []  # asked for, not "latest": that is found out later, behind what came meanwhile
        for number in range(_PARTITIONS):
            partition = TopicPartition("changes", number)
            _, partition.offset = consumer.get_watermark_offsets(partition, timeout=_PATIENCE)
            ends.append(partition)
        consumer.assign(ends)
        ready.set()
        while not stop.is_set():
            record = consumer.poll(0.1)
            value = None if record is None or record.error() else record.value()
            if value is not None:
                after = decode(value, Envelope.PLAIN).after
                self._seen.setdefault((after or {}).get("id", 0), time.perf_counter())
        consumer.close()


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise SystemExit("a consumer did not see every row")
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(main())
