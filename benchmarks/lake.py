"""What a copy in the lake costs: the first delivery, a small refresh, a delta of a thousandth.

    python -m benchmarks.lake [--rows N] [--rounds N]

The stream table is loaded first and gets its sink afterwards, so that the first delivery is timed
alone; Spark runs by then, whose executors write it if it is large.  The lake's part of a refresh is
what the refresh itself reports, from the first statement for the lake to the last.  At the end
DuckDB counts and adds up, and PostgreSQL does the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.model.report import RefreshReport
from pgtrickle.settings import Settings
from tests.fixtures.ducklake import lake_client

_CREATE = """
    CREATE TABLE orders (id bigint PRIMARY KEY, customer int, price numeric(12,2), note text,
                         placed_at timestamp)
"""
_FILL = """
    INSERT INTO orders
    SELECT i, i %% 5000, (i * 7 %% 100000) / 100.0, 'order of customer ' || i %% 5000,
           TIMESTAMP '2026-01-01' + i * INTERVAL '1 s'
      FROM generate_series(1, %s) AS i
"""
_COPY = "SELECT id, customer, price, note, placed_at FROM orders"
_FEW = "UPDATE orders SET price = price + 1 WHERE id BETWEEN %s AND %s"
_THOUSANDTH = "UPDATE orders SET price = price + 1 WHERE id % 1000 = 7"
_ANSWER = "SELECT count(*), sum(price), sum(id), max(placed_at) FROM copied"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a table; 1 if DuckDB answers otherwise than PostgreSQL."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        settings = Settings(ducklake_catalog_schema="lake")
        with (
            start_embedded(Path(directory) / "home") as server,
            pgtrickle.connect(server.dsn, settings=settings, init=True) as trickle,
            psycopg.connect(server.dsn, autocommit=True) as connection,
        ):
            return _run(trickle, connection, Path(directory) / "lake", argv, arguments)


def _run(
    trickle: pgtrickle.Trickle,
    connection: Connection[TupleRow],
    lake: Path,
    argv: Sequence[str],
    arguments: argparse.Namespace,
) -> int:
    say(f"loading {arguments.rows:,} rows")
    connection.execute(_CREATE)
    connection.execute(_FILL, [arguments.rows])
    trickle.create_stream_table("copied", _COPY, refresh_mode="DIFFERENTIAL")
    say("first delivery")
    began = time.perf_counter()
    trickle.alter_stream_table("copied", sink="ducklake", ducklake_sink_path=str(lake))
    seconds = time.perf_counter() - began
    full, files = _bytes_written(trickle), len(list(lake.rglob("*.parquet")))
    say("small refreshes")
    small = [_refresh_few(trickle, connection, number) for number in range(arguments.rounds)]
    parts = sorted(report.timings_ms["lake"] for report in small)
    say("a thousandth of the rows")
    before = _bytes_written(trickle)
    connection.execute(_THOUSANDTH)
    report = trickle.refresh_stream_table("copied")
    delta = _bytes_written(trickle) - before
    equal = _answers_agree(trickle, connection)
    results = describe_run(
        "benchmarks.lake",
        argv,
        connection,
        title=f"A copy of {arguments.rows:,} rows in the lake",
        tables=[
            {
                "columns": ["what", "figure"],
                "rows": [
                    ["first delivery, seconds", seconds],
                    ["first delivery, rows/s", arguments.rows / seconds],
                    ["first delivery, bytes", full],
                    ["first delivery, files", files],
                    ["lake's part of a 10-row update, ms, median", statistics.median(parts)],
                    ["the same, least", parts[0]],
                    ["the same, greatest", parts[-1]],
                    ["delta of a thousandth: rows", report.rows_inserted],
                    ["delta of a thousandth: lake's part, ms", report.timings_ms["lake"]],
                    ["delta of a thousandth: bytes, % of the table", 100 * delta / full],
                ],
            }
        ],
        notes=[f"DuckDB and PostgreSQL answer {'alike' if equal else 'DIFFERENTLY'}."],
    )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0 if equal else 1


def _refresh_few(
    trickle: pgtrickle.Trickle, connection: Connection[TupleRow], number: int
) -> RefreshReport:
    connection.execute(_FEW, [number * 50 + 1, number * 50 + 10])
    return trickle.refresh_stream_table("copied")


def _bytes_written(trickle: pgtrickle.Trickle) -> int:
    [one] = trickle.lake.ducklake_sink_status()
    return one.bytes_written


def _answers_agree(trickle: pgtrickle.Trickle, connection: Connection[TupleRow]) -> bool:
    with lake_client(trickle.dsn, "lake") as client:
        in_lake = client.execute(_ANSWER).fetchall()
    return in_lake == connection.execute(_ANSWER).fetchall()


if __name__ == "__main__":
    sys.exit(main())
