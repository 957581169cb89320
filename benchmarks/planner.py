"""What the planner's advice costs, by the length of the history that it reads.

    python -m benchmarks.planner [--refreshes N ...] [--rounds N]

For each number of refreshes it gives a stream table a history of so many, one a minute with a busy
hour each day, and times ``recommend_schedule()``.  The planner looks at the latest 20,000 of them.
Then it asks for the advice on all at once, as ``pgtrickle advise`` does.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import psycopg
from psycopg import Connection

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.shop import create_database
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, load_settings

_HISTORY = """
    INSERT INTO pgtrickle.pgt_refresh_history
        (pgt_id, start_time, end_time, data_timestamp, action, status, reason, initiated_by,
         rows_inserted, rows_deleted, delta_row_count, reads, timings, actual_ms, changed_rows)
    SELECT s.pgt_id, h.began, h.began + make_interval(secs => h.took), h.began, 'DIFFERENTIAL',
           'COMPLETED', 'simulated', 'SCHEDULER', h.amount, 0, h.amount, '[]', '{}', h.took * 1000,
           h.amount
      FROM pgtrickle.pgt_stream_tables AS s,
           LATERAL (SELECT m.began, 0.08 + m.amount * 0.00001 AS took, m.amount
                      FROM (SELECT timestamptz '2026-01-05' + number * interval '1 minute' AS began,
                                   CASE WHEN number / 60 %% 24 = 9 THEN 5000 ELSE 50 END
                                   + number %% 17 AS amount
                              FROM generate_series(1, %(refreshes)s::int) AS number) AS m) AS h
     WHERE s.pgt_name = %(name)s
     ORDER BY h.began
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print them as Markdown."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--refreshes", type=int, nargs="+", default=[20, 200, 2000, 20000, 100000])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)
        with start_embedded(Path(directory) / "home") as server:
            dsn = create_database(server.dsn, "planner")
            with psycopg.connect(dsn, autocommit=True) as connection:
                rows = _measure(dsn, connection, arguments.refreshes, arguments.rounds)
                results = describe_run(
                    "benchmarks.planner",
                    argv,
                    connection,
                    title="The planner, by the length of the history",
                    tables=[{"columns": ["refreshes on record", "confidence", "ms"], "rows": rows}],
                    notes=[f"The median of {arguments.rounds} rounds."],
                )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0


def _measure(
    dsn: str, connection: Connection, lengths: Sequence[int], rounds: int
) -> list[list[object]]:
    rows: list[list[object]] = []
    settings = load_settings(engine=POSTGRES)
    with pgtrickle.connect(dsn, settings=settings, init=True) as trickle:
        connection.execute("CREATE TABLE source (id integer PRIMARY KEY)")
        for length in lengths:
            name = f"with_{length}"
            say(f"a history of {length:,} refreshes")
            trickle.create_stream_table(name, "SELECT id FROM source", schedule="1m")
            connection.execute(_HISTORY, {"refreshes": length, "name": name})
            connection.execute("ANALYZE pgtrickle.pgt_refresh_history")
            advice = trickle.insight.recommend_schedule(name)
            took = _time(partial(trickle.insight.recommend_schedule, name), rounds)
            rows.append([f"{length:,}", advice["confidence"], took])
        rows.append(["all at once", "", _time(trickle.insight.schedule_recommendations, rounds)])
    return rows


def _time(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1000)
    return round(median(times), 1)


if __name__ == "__main__":
    sys.exit(main())
