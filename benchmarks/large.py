"""First loads and large deltas: rows a second, and what they take of memory.

Over ``lineitem`` of TPC-H (SF1, 6 M rows, by default), in one run and on one server:

* reading it into Spark: our executors, and Spark's own JDBC reader over the same ranges of pages;
* loading it into PostgreSQL: the first load of a stream table, and Spark's JDBC reader and writer;
* a delta of 5 M changed rows through a join, with a driver heap of 2 GiB.

Results are verified against PostgreSQL's own answer.  The JDBC comparison needs the driver's jar
(``--jdbc-jar``, from Debian's libpostgresql-jdbc-java or org.postgresql:postgresql) and a server
that listens on TCP, so the benchmark starts one of its own on a free port of 127.0.0.1.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

import pgtrickle
from pgtrickle.catalog.typer import PgTyper
from pgtrickle.embedded.binaries import find_binaries
from pgtrickle.embedded.cluster import make_data_directory
from pgtrickle.embedded.home import open_base, open_home
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.report import RefreshReport
from pgtrickle.settings import Settings
from pgtrickle.spark.carriers import Use, carrier_for
from pgtrickle.spark.connection_file import connection_file
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.large_read import LargeRead, page_count_sql
from pgtrickle.spark.run_stage import frame_of
from pgtrickle.spark.session import SparkSessions

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import DataFrame

_SCHEMA = Path(__file__).parents[1] / "tests" / "workloads" / "tpch" / "schema.sql"
_TABLES = ("customer", "orders", "lineitem")
_LINEITEM = QualifiedName("public", "lineitem")
_COLUMNS = [
    "l_orderkey",
    "l_partkey",
    "l_suppkey",
    "l_linenumber",
    "l_quantity",
    "l_extendedprice",
    "l_discount",
    "l_tax",
    "l_returnflag",
    "l_linestatus",
    "l_shipdate",
    "l_commitdate",
    "l_receiptdate",
    "l_shipinstruct",
    "l_shipmode",
    "l_comment",
]
_REVENUE = """
    SELECT o_custkey, count(*) AS items, sum(l_extendedprice * (1 - l_discount)) AS revenue
      FROM lineitem JOIN orders ON o_orderkey = l_orderkey GROUP BY o_custkey
"""


def main() -> int:
    """Run the comparison and print it as a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=5 / 6, help="share of lineitem to change")
    parser.add_argument("--heap", default="2g")
    parser.add_argument("--jdbc-jar", default=_find_jar())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, _tcp_server(Path(directory)) as dsn:
        return _compare(dsn, arguments)


def _compare(dsn: str, arguments: argparse.Namespace) -> int:
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = _load(connection, arguments.scale)
    jar = {"spark.driver.extraClassPath": arguments.jdbc_jar} if arguments.jdbc_jar else {}
    sessions = SparkSessions(driver_memory=arguments.heap, settings=jar)
    engine = SparkEngine(dsn, sessions)
    settings = Settings(spark_driver_memory=arguments.heap)
    lines: list[tuple[str, float, int]] = []
    with pgtrickle.connect(dsn, engine=engine, settings=settings) as trickle:
        _say("warming up")
        sessions.large().range(1_000_000).selectExpr("sum(id)").collect()
        with _described(dsn) as (read, path):
            frame = frame_of(sessions.large(), read, path)
            lines.append(("read: our executors", _seconds(lambda: _to_nowhere(frame)), rows))
            if arguments.jdbc_jar:
                theirs = _jdbc(sessions, dsn, read)
                seconds = _seconds(lambda: _to_nowhere(theirs))
                lines.append(("read: Spark's JDBC reader", seconds, rows))
        _say("first load of a stream table")
        columns = ", ".join(_COLUMNS)
        first = _created(trickle, "copied", f"SELECT {columns} FROM lineitem")
        lines.append(("load: first load, with index", first.duration_ms / 1000, rows))
        if arguments.jdbc_jar:
            with _described(dsn) as (read, _):
                theirs = _jdbc(sessions, dsn, read)
                seconds = _seconds(lambda: _jdbc_write(theirs, dsn))
                lines.append(("load: Spark's JDBC reader and writer", seconds, rows))
        _say("first load of an aggregate over a join")
        revenue = _created(trickle, "revenue", _REVENUE)
        lines.append(("load: aggregate over a join", revenue.duration_ms / 1000, rows))
        _say("a large delta")
        changed = _change(dsn, arguments.delta)
        report = trickle.refresh_stream_table("revenue")
        lines.append((f"delta: {changed:,} changes", report.duration_ms / 1000, changed))
        heap, jvm = _jvm_memory()
        ok = trickle.verify_stream_table("revenue").ok and first.rows_inserted == rows
    print(f"\nlineitem: {rows:,} rows; heap {arguments.heap}; {platform.machine()},")
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}\n")
    print("| what | seconds | rows/s |\n|---|---:|---:|")
    for name, seconds, count in lines:
        print(f"| {name} | {seconds:.1f} | {count / seconds:,.0f} |")
    for name, one in (("copied", first), ("revenue", revenue), ("delta", report)):
        print(f"\nwhere the time of {name} went (ms):", one.timings_ms)
        for read_ in one.reads:
            print(f"  {read_.source} ({read_.kind}): {read_.rows:,} rows, {read_.bounded_by}")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak: Python driver {own:.0f} MB, JVM heap {heap:.0f} MB, JVM resident {jvm:.0f} MB")
    print(f"action of the delta: {report.action.value}")
    print(f"verified against PostgreSQL: {'equal' if ok else 'DIFFERENT'}")
    return 0 if ok else 1


def _created(trickle: pgtrickle.Trickle, name: str, query: str) -> RefreshReport:
    report = trickle.create_stream_table(name, query, refresh_mode="DIFFERENTIAL")
    if report is None:
        raise AssertionError("a stream table that is initialized has a first refresh")
    return report


def _load(connection: psycopg.Connection, scale: float) -> int:
    _say(f"loading TPC-H at scale {scale}")
    connection.execute(_SCHEMA.read_bytes())
    program = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
    with tempfile.TemporaryDirectory() as directory:
        command = [str(program), "csv", "--scale-factor", str(scale), "--output-dir", directory]
        command += ["--quiet", "--tables", ",".join(_TABLES)]
        subprocess.run(command, check=True)  # noqa: S603 - our own program
        for table in _TABLES:
            statement = f"COPY {table} FROM STDIN (FORMAT csv, HEADER match)"
            with (
                (Path(directory) / f"{table}.csv").open("rb") as file,
                connection.cursor().copy(statement.encode()) as copy,
            ):
                while block := file.read(2**20):
                    copy.write(block)
            connection.execute(f"VACUUM ANALYZE {table}".encode())
    [(rows,)] = connection.execute("SELECT count(*) FROM lineitem").fetchall()
    return int(rows)


def _change(dsn: str, share: float) -> int:
    """Update about the share of lineitem that gives this many weighted rows; count them."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        percent = int(share * 50)  # an update is two changes
        done = connection.execute(
            "UPDATE lineitem SET l_discount = l_discount + 0.01 WHERE l_orderkey % 100 < %s",
            [percent],
        )
        return done.rowcount * 2


@contextmanager
def _described(dsn: str) -> Iterator[tuple[LargeRead, str]]:
    """Describe the read of all columns as a refresh would, under a snapshot of its own."""
    with psycopg.connect(dsn) as connection, connection_file(dsn) as path:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        [(pages,)] = connection.execute(page_count_sql(_LINEITEM).encode()).fetchall()
        [(snapshot,)] = connection.execute("SELECT pg_export_snapshot()").fetchall()
        found = PgTyper(connection).query_columns("SELECT * FROM lineitem")
        columns = tuple((one.name, carrier_for(one.type, Use.PASS)) for one in found)
        listed = ", ".join(f"{carrier.read_sql(name)} AS {name}" for name, carrier in columns)
        sql = f"SELECT {listed} FROM lineitem WHERE {{ctid range}}"
        yield LargeRead(sql, columns, snapshot, relpages=pages), str(path)


def _jdbc(sessions: SparkSessions, dsn: str, read: LargeRead) -> DataFrame:
    ranges = [re.findall(r"\(?ctid .*$", query)[0] for query in read.partition_queries()]
    return sessions.large().read.jdbc(
        _url(dsn), "lineitem", predicates=ranges, properties=_JDBC | {"fetchsize": "10000"}
    )


_JDBC = {"user": "postgres", "driver": "org.postgresql.Driver"}


def _jdbc_write(frame: DataFrame, dsn: str) -> None:
    properties = _JDBC | {"batchsize": "10000", "reWriteBatchedInserts": "true"}
    frame.write.jdbc(_url(dsn), "copied_by_jdbc", mode="overwrite", properties=properties)


def _url(dsn: str) -> str:
    port = conninfo_to_dict(dsn)["port"]
    return f"jdbc:postgresql://127.0.0.1:{port}/postgres"


def _to_nowhere(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _jvm_memory() -> tuple[float, float]:
    """Return the peak heap in use after collections, and the peak resident size, in MB."""
    from pyspark import SparkContext

    java: Any = SparkContext._jvm  # noqa: SLF001 - no public way to ask
    beans = java.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    heap = sum(b.getPeakUsage().getUsed() for b in beans if str(b.getType()) == "Heap memory")
    pid = java.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return heap / 2**20, int(found[1]) / 1024 if found else 0.0


@contextmanager
def _tcp_server(directory: Path) -> Iterator[str]:
    """Run the embedded server's programs on a free port of 127.0.0.1, for whoever is on it."""
    directory.chmod(0o755)
    base = open_base(open_home(directory / "home"))
    binaries = find_binaries(base.account)
    make_data_directory(base, binaries)
    access = base.directory / "trust.conf"
    access.write_text("host all all 127.0.0.1/32 trust\n")
    access.chmod(0o644)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": ""}
    command = [binaries.postgres, "-D", str(base.data), "-c", f"hba_file={access}"]
    command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    with base.log.open("ab") as log:
        process = base.account.spawn(command, output=log)
    dsn = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
    try:
        _await(dsn)
        yield dsn
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def _await(dsn: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            psycopg.connect(dsn).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _find_jar() -> str:
    jar = Path("/usr/share/java/postgresql.jar")
    return str(jar) if jar.exists() else ""


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _say(text: str) -> None:
    print(f"... {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
