"""First loads beside Spark's own JDBC reader: rows a second, over the same parts.

    python -m benchmarks.large --jdbc-jar postgresql.jar [--scale N] [--rounds N]

Over ``lineitem`` of TPC-H (SF1, 6 M rows, by default), in one run and on one server:

* reading it into Spark: our executors, and Spark's JDBC reader over the same ranges of pages;
* loading it into PostgreSQL: the first load of a stream table, with the index and the statistics
  that belong to it, and Spark's JDBC reader and writer.

The driver's jar (Debian's libpostgresql-jdbc-java, org.postgresql:postgresql of Maven Central) is
named by ``--jdbc-jar`` or ``JDBC_JAR``; ``--jdbc-package`` lets Spark fetch it.  Its URLs know TCP
only, so the benchmark starts a server of its own on a free port of 127.0.0.1.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from benchmarks.say import say
from benchmarks.tcp_server import tcp_server
from pgtrickle.binding.expression_types import PgTyper
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.executors.connection_file import connection_file
from pgtrickle.spark.executors.large_read import LargeRead, page_count_sql, with_range
from pgtrickle.spark.run_stage import frame_of
from pgtrickle.spark.sessions.pair import SparkSessions
from pgtrickle.transit.carriers import Use, carrier_for
from tests.workloads.tpch.workload import load_scale

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import DataFrame

_LINEITEM = QualifiedName("public", "lineitem")
_FIRST_PAGES = "ctid < '(100,0)'::tid"
_JDBC = {"user": "postgres", "driver": "org.postgresql.Driver"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison and print it as a table."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--heap", default="2g")
    parser.add_argument("--jdbc-jar", default=os.environ.get("JDBC_JAR", ""))
    parser.add_argument(
        "--jdbc-package", default="", help="such as org.postgresql:postgresql:42.7.7"
    )
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory, tcp_server(Path(directory)) as dsn:
        rows, seconds = _compare(dsn, arguments)
        with psycopg.connect(dsn) as connection:
            results = describe_run(
                "benchmarks.large",
                argv,
                connection,
                title=f"The first load of lineitem, {rows:,} rows",
                tables=[_table(rows, seconds)],
                notes=[f"Medians of {arguments.rounds}; Spark's heap is {arguments.heap}."],
            )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0


def _compare(dsn: str, arguments: argparse.Namespace) -> tuple[int, dict[str, float]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        say(f"loading TPC-H at scale {arguments.scale}")
        load_scale(connection, arguments.scale)
        [(rows,)] = connection.execute("SELECT count(*) FROM lineitem").fetchall()
    driver = {
        "spark.driver.extraClassPath": arguments.jdbc_jar,
        "spark.jars.packages": arguments.jdbc_package,
    }
    sessions = SparkSessions(
        driver_memory=arguments.heap,
        settings={name: value for name, value in driver.items() if value},
    )
    engine = SparkEngine(dsn, sessions)
    times: dict[str, list[float]] = {}
    with pgtrickle.connect(dsn, engine=engine, init=True) as trickle:
        _warm_up(sessions, dsn, with_jdbc=any(driver.values()))
        for number in range(arguments.rounds):
            say(f"round {number + 1} of {arguments.rounds}")
            ways = _ways(trickle, sessions, dsn, with_jdbc=any(driver.values()))
            for name, seconds in ways:
                say(f"{name}: {seconds:.1f} s")
                times.setdefault(name, []).append(seconds)
    return rows, {name: statistics.median(found) for name, found in times.items()}


def _warm_up(sessions: SparkSessions, dsn: str, *, with_jdbc: bool) -> None:
    """Start Spark and its Python processes, and read a few pages both ways."""
    say("warming up")
    with _described(dsn) as (read, path):
        first = replace(read, relpages=100, sql=with_range(read.sql, _FIRST_PAGES))
        for _ in range(2):
            _to_nowhere(frame_of(sessions.large(), first, path))
            if with_jdbc:
                _to_nowhere(_jdbc(sessions, dsn, [_FIRST_PAGES]))


def _ways(
    trickle: pgtrickle.Trickle, sessions: SparkSessions, dsn: str, *, with_jdbc: bool
) -> Iterator[tuple[str, float]]:
    """Do everything once, ours and theirs in turn, and yield what each took."""
    with _described(dsn) as (read, path):
        frame = frame_of(sessions.large(), read, path)
        yield "read: ours", _seconds(lambda: _to_nowhere(frame))
        if with_jdbc:
            theirs = _jdbc(sessions, dsn, _ranges(read))
            yield "read: JDBC", _seconds(lambda: _to_nowhere(theirs))
    report = trickle.create_stream_table("copied", "SELECT * FROM lineitem", refresh_mode="FULL")
    if report is not None:
        say(f"where the time of the first load went (ms): {report.timings_ms}")
        yield "load: ours", report.duration_ms / 1000
    trickle.drop_stream_table("copied")
    if with_jdbc:
        with _described(dsn) as (read, _):
            theirs = _jdbc(sessions, dsn, _ranges(read))
            yield "load: JDBC", _seconds(lambda: _jdbc_write(theirs, dsn))


def _table(rows: int, seconds: dict[str, float]) -> Results:
    listed: list[list[object]] = []
    for name, spent in seconds.items():
        theirs = seconds.get(name.replace("ours", "JDBC"))
        ratio = theirs / spent if theirs and name.endswith("ours") else None
        listed.append([name, spent, rows / spent, ratio])
    return {"columns": ["what", "seconds", "rows/s", "JDBC / ours"], "rows": listed}


@contextmanager
def _described(dsn: str) -> Iterator[tuple[LargeRead, str]]:
    """Describe the read of all columns under a snapshot, numerics as decimals, as JDBC has them."""
    with psycopg.connect(dsn) as connection, connection_file(dsn) as path:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        [(pages,)] = connection.execute(page_count_sql(_LINEITEM).encode()).fetchall()
        [(snapshot,)] = connection.execute("SELECT pg_export_snapshot()").fetchall()
        found = PgTyper(connection).query_columns("SELECT * FROM lineitem")
        columns = tuple((one.name, carrier_for(one.type, Use.COMPARE)) for one in found)
        listed = ", ".join(f"{carrier.read_sql(name)} AS {name}" for name, carrier in columns)
        sql = f"SELECT {listed} FROM lineitem WHERE {{ctid range}}"
        yield LargeRead(sql, columns, snapshot, relpages=pages), str(path)


def _ranges(read: LargeRead) -> list[str]:
    """Return the conditions of the parts that our executors read."""
    return [re.findall(r"\(?ctid .*$", query)[0] for query in read.partition_queries()]


def _jdbc(sessions: SparkSessions, dsn: str, ranges: list[str]) -> DataFrame:
    return sessions.large().read.jdbc(
        _url(dsn), "lineitem", predicates=ranges, properties=_JDBC | {"fetchsize": "10000"}
    )


def _jdbc_write(frame: DataFrame, dsn: str) -> None:
    properties = _JDBC | {"batchsize": "10000", "reWriteBatchedInserts": "true"}
    frame.write.jdbc(_url(dsn), "copied_by_jdbc", mode="overwrite", properties=properties)


def _url(dsn: str) -> str:
    port = conninfo_to_dict(dsn)["port"]
    return f"jdbc:postgresql://127.0.0.1:{port}/postgres"


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


if __name__ == "__main__":
    sys.exit(main())
