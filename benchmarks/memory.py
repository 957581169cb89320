"""A first load and a large delta with little memory: do they pass, how fast, what do they hold.

    python -m benchmarks.memory [--scale N] [--changes N] [--heap 2g]

With a driver heap of 2 GiB, over TPC-H (SF1, 6 M lineitems, by default):

* the first load of a stream table that holds all of ``lineitem``;
* the first load of an aggregate over a join, and its refresh after 5 M changes to ``lineitem``.

With a local master the executors live in the driver's heap too, so nothing is hidden elsewhere.
Results are verified against PostgreSQL's own answer.
"""

from __future__ import annotations

import argparse
import re
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say, say_progress
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import InternalError
from pgtrickle.model.report import RefreshReport
from pgtrickle.settings import Settings
from tests.workloads.tpch.workload import load_scale

_COPY = "SELECT * FROM lineitem"
_REVENUE = """
    SELECT o_custkey, count(*) AS items, sum(l_extendedprice * (1 - l_discount)) AS revenue
      FROM lineitem JOIN orders ON o_orderkey = l_orderkey GROUP BY o_custkey
"""
# Spread over all pages of the table.
_UPDATE = """
    UPDATE lineitem SET l_discount = l_discount + 0.01
     WHERE (l_orderkey * 7 + l_linenumber) %% 1000 < %s
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the three refreshes and print them as a table; 1 if a result differs."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--changes", type=int, default=5_000_000)
    parser.add_argument("--heap", default="2g")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    settings = Settings(spark_driver_memory=arguments.heap, progress_seconds=10.0)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with (
            start_embedded(Path(directory) / "home") as server,
            pgtrickle.connect(server.dsn, settings=settings, init=True) as trickle,
        ):
            return _run(trickle, argv, arguments)


def _run(trickle: pgtrickle.Trickle, argv: Sequence[str], arguments: argparse.Namespace) -> int:
    trickle.on_progress(say_progress)
    lines = []
    with psycopg.connect(trickle.dsn, autocommit=True) as connection:
        say(f"loading TPC-H at scale {arguments.scale}")
        load_scale(connection, arguments.scale)
        [(rows,)] = connection.execute("SELECT count(*) FROM lineitem").fetchall()
        say("first load of lineitem")
        lines.append(("first load: lineitem", rows, _created(trickle, "copied", _COPY)))
        ok = lines[0][2].rows_inserted == rows and trickle.verify_stream_table("copied").ok
        trickle.drop_stream_table("copied")
        say("first load of an aggregate over a join")
        lines.append(("first load: join and sum", rows, _created(trickle, "revenue", _REVENUE)))
        # An update is two changes: a row that goes and one that comes.
        share = min(arguments.changes / 2 / rows, 1.0)
        changed = connection.execute(_UPDATE, [round(share * 1000)]).rowcount * 2
        say(f"a delta of {changed:,} rows")
        report = trickle.refresh_stream_table("revenue")
        lines.append(("delta: join and sum", changed, report))
    heap, jvm = _jvm_memory()
    ok = ok and trickle.verify_stream_table("revenue").ok and report.action.value == "DIFFERENTIAL"
    for name, _, one in lines:
        say(f"{name}, where the time went (ms): {one.timings_ms}")
        for read in one.reads:
            say(f"  {read.source} ({read.kind}): {read.rows:,} rows, {read.bounded_by}")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with psycopg.connect(trickle.dsn) as connection:
        results = describe_run(
            "benchmarks.memory",
            argv,
            connection,
            title=f"Large refreshes of TPC-H {arguments.scale:g} with a heap of {arguments.heap}",
            tables=[
                {
                    "columns": ["what", "action", "rows", "seconds", "rows/s"],
                    "rows": [
                        [
                            name,
                            one.action.value,
                            count,
                            one.duration_ms / 1000,
                            count / one.duration_ms * 1000,
                        ]
                        for name, count, one in lines
                    ],
                }
            ],
            notes=[
                f"Peak, MB: heap in use {heap:.0f}, JVM {jvm:.0f}, Python process {own:.0f}.",
                f"Compared with PostgreSQL's answer: {'equal' if ok else 'DIFFERENT'}.",
            ],
        )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if ok else 1


def _created(trickle: pgtrickle.Trickle, name: str, query: str) -> RefreshReport:
    report = trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    if report is None:
        raise InternalError("a stream table that is initialized has a first refresh")
    return report


def _jvm_memory() -> tuple[float, float]:
    """Return the peak of the heap in use and of the resident size, in MB."""
    from pyspark import SparkContext

    java: Any = SparkContext._jvm  # noqa: SLF001 - no public way to ask
    beans = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = sum(
        bean.getPeakUsage().getUsed()
        for bean in beans
        if str(bean.getType().toString()) == "Heap memory"
    )
    pid = java.java.lang.ProcessHandle.current().pid()
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return heap / 2**20, int(found[1]) / 1024 if found else 0.0


if __name__ == "__main__":
    sys.exit(main())
