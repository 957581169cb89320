"""Messages through an inbox, each once: inserted by a producer, and received by a relay from Redis.

    python -m benchmarks.inbox [--messages N] [--duplicates PERCENT] [--batch N]

A part of the messages comes twice, at random distances.  The producer inserts batches into an inbox
with its stream tables, and the same without them; the relay receives all messages from a stream of
a real Redis.  Then the stream table of what waits is refreshed.  The inbox must have each message
once, and the stream table what the inbox has.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow
from redis import Redis
from redis.exceptions import ConnectionError as NotReachedError

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, Settings

_INSERT = """
    INSERT INTO {table} (event_id, event_type, payload)
    SELECT 'm' || n, 'paid', jsonb_build_object('n', n, 'amount', n / 100.0)
      FROM unnest(%s::int[]) AS n ORDER BY n
        ON CONFLICT (event_id) DO NOTHING
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; 1 if a message is missing or there twice."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--duplicates", type=int, default=20, help="percent of all messages")
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with (
            start_embedded(Path(directory) / "home") as server,
            pgtrickle.connect(server.dsn, settings=Settings(engine=POSTGRES), init=True) as trickle,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            bench = _Bench(trickle, connection, arguments)
            bench.run(Path(directory))
            results = describe_run(
                "benchmarks.inbox",
                argv,
                connection,
                title=f"{arguments.messages:,} messages, {arguments.duplicates} % twice",
                tables=[bench.tell()],
                notes=[
                    f"Load at the end, with all who share the machine: {os.getloadavg()[0]:.1f}."
                ],
            )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if bench.right else 1


def draw_messages(messages: int, duplicates: int) -> list[int]:
    """Return the numbers of messages as they come: some twice, in an order of their own."""
    again = messages * duplicates // 100
    draw = random.Random(22)  # noqa: S311 - no secret
    once = list(range(messages - again))
    numbers = once + draw.choices(once, k=again)
    draw.shuffle(numbers)
    return numbers


@dataclass(slots=True)
class _Bench:
    trickle: pgtrickle.Trickle
    connection: Connection[TupleRow]
    arguments: argparse.Namespace
    found: list[tuple[str, int, float]] = field(default_factory=list)
    right: bool = True

    def run(self, folder: Path) -> None:
        """Measure the ways into an inbox, one after the other."""
        numbers = draw_messages(self.arguments.messages, self.arguments.duplicates)
        say("inserts into a plain table")
        self.connection.execute(
            "CREATE TABLE plain (event_id text PRIMARY KEY, event_type text, payload jsonb)"
        )
        self._insert("plain", numbers)
        say("inserts into an inbox")
        self.trickle.inbox.create_inbox("inserted")
        self._insert("inserted", numbers)
        self._refresh("inserted", numbers)
        if shutil.which("redis-server") is None:
            say("without redis-server, nothing is received by a relay")
            return
        self.trickle.inbox.create_inbox("received")
        with _redis(folder) as url:
            self._receive(url, numbers)
        self._refresh("received", numbers)

    def _insert(self, table: str, numbers: Sequence[int]) -> None:
        statement = _INSERT.replace("{table}", table).encode()
        began, size = time.perf_counter(), self.arguments.batch
        for start in range(0, len(numbers), size):
            self.connection.execute(statement, [list(numbers[start : start + size])])
        kind = "inserts into a plain table" if table == "plain" else "inserts into an inbox"
        self.found.append((kind, len(numbers), time.perf_counter() - began))

    def _receive(self, url: str, numbers: Sequence[int]) -> None:
        say("fills Redis")
        with Redis.from_url(url) as client:
            for start in range(0, len(numbers), 10_000):
                with client.pipeline(transaction=False) as together:
                    for one in numbers[start : start + 10_000]:
                        value = f'{{"n": {one}, "amount": {one / 100}}}'
                        together.xadd("mail", {"id": f"m{one}", "value": value})
                    together.execute()
        options = {"url": url, "stream": "mail"}
        self.trickle.inbound.create_inbound_pipeline(
            "p", "received", "redis", options,
            max_inflight=self.arguments.batch, max_pending=1_000_000_000,
        )  # fmt: skip
        say("a relay receives them")
        began = time.perf_counter()
        [status] = self.trickle.inbound.run_inbound(once=True)
        took = time.perf_counter() - began
        self.found.append(("a relay receives from Redis", len(numbers), took))
        self.right &= status.error is None
        self.right &= status.duplicates == len(numbers) - len(set(numbers))

    def _refresh(self, name: str, numbers: Sequence[int]) -> None:
        say("refreshes what waits")
        began = time.perf_counter()
        self.trickle.refresh_stream_table(f"{name}_pending")
        took = time.perf_counter() - began
        self.found.append((f"refresh of {name}_pending", len(set(numbers)), took))
        for table in (name, f"{name}_pending"):
            query = f"SELECT count(*), sum((payload ->> 'n')::int8) FROM {table}"
            [held] = self.connection.execute(query.encode()).fetchall()
            self.right &= held == (len(set(numbers)), sum(set(numbers)))

    def tell(self) -> Results:
        """Return the table of the results."""
        rows = [[what, number, took, number / took] for what, number, took in self.found]
        rows.append(["each once", "yes" if self.right else "NO", None, None])
        return {"columns": ["what", "messages", "seconds", "messages a second"], "rows": rows}


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    url = f"redis://127.0.0.1:{port}/0"
    command += ["--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - ours
        try:
            for _ in range(200):
                try:
                    with Redis.from_url(url) as client:
                        client.ping()
                    break
                except NotReachedError:
                    time.sleep(0.05)
            yield url
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main())
