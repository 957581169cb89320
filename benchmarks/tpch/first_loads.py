"""``make bench-first-loads``: how long the first load of each stream table takes, by engine.

    python -m benchmarks.tpch.first_loads [--scale N] [--engine NAME ...] [--rounds N] [QUERY ...]

For each query in turn: CREATE MATERIALIZED VIEW, then create_stream_table with each engine, and
what was made is dropped again.  A time counts after the stream table was found equal to the view.
Spark runs before the first query, as in a daemon.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import pgtrickle
from benchmarks.ratios import failures, geometric_mean
from benchmarks.results import describe_run, write_results
from benchmarks.say import say, say_progress
from benchmarks.tpch.database import Database, add_options, open_database
from pgtrickle.settings import Settings
from pgtrickle.spark.engine import SparkEngine

ENGINES = ("auto", "postgres", "spark")
_COUNT_DIFFERENCES = """
    SELECT count(*) FROM ((TABLE {left} EXCEPT ALL TABLE {right})
                          UNION ALL (TABLE {right} EXCEPT ALL TABLE {left})) AS differences
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Load every query by every engine, print the ratios, write the results."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="benchmarks.tpch.first_loads", description=__doc__)
    add_options(parser, ())
    parser.add_argument("--engine", action="append", choices=ENGINES, help="only these")
    parser.add_argument("--rounds", type=int, default=1, help="loads of each, the median counts")
    options = parser.parse_args(arguments)
    engines = options.engine or ENGINES
    with open_database(options) as database:
        results = describe_run(
            "benchmarks.tpch.first_loads",
            arguments,
            database.connection,
            scale=options.scale,
            runs=[{"queries": _load_all(database, engines, options.rounds)}],
        )
    for line in summary(results):
        print(line)
    if options.output:
        write_results(options.output, results)
    return 1 if failures(results) else 0


def _load_all(database: Database, engines: Sequence[str], rounds: int) -> dict[str, Any]:
    engine = SparkEngine(database.dsn)
    with pgtrickle.connect(database.dsn, engine=engine, settings=Settings(), init=True) as trickle:
        if set(engines) - {"postgres"}:
            began = time.perf_counter()
            for session in (engine.sessions.large(), engine.sessions.small()):
                session.sql("SELECT 1").collect()
            say(f"Spark started in {time.perf_counter() - began:.1f} s")
        trickle.on_progress(say_progress)
        found: dict[str, Any] = {}
        for query, sql in database.queries.items():
            result: dict[str, Any] = {}
            found[query] = result
            for _ in range(rounds):
                _load(database, trickle, engines, query, sql, result)
        return found


def _load(
    database: Database,
    trickle: pgtrickle.Trickle,
    engines: Sequence[str],
    query: str,
    sql: str,
    result: dict[str, Any],
) -> None:
    connection = database.connection
    view = f"view_{query}"
    try:
        connection.execute(f"DROP MATERIALIZED VIEW IF EXISTS {view}".encode())
        began = time.perf_counter()
        connection.execute(f"CREATE MATERIALIZED VIEW {view} AS {sql}".encode())
        _note(result, "view", began, {})
        for engine in engines:
            began = time.perf_counter()
            report = trickle.create_stream_table(query, sql, engine=engine)
            facts = {} if report is None else {"reason": report.reason, **report.timings_ms}
            _note(result, engine, began, facts)
            statement = _COUNT_DIFFERENCES.format(left=query, right=view)
            [(count,)] = connection.execute(statement.encode()).fetchall()
            if count:
                result["failure"] = f"{engine}: {count} rows differ from PostgreSQL's own answer"
            trickle.drop_stream_table(query)
        connection.execute(f"DROP MATERIALIZED VIEW {view}".encode())
    except Exception as error:  # noqa: BLE001 - the other queries go on
        result["failure"] = f"{type(error).__name__}: {error}"
        trickle.drop_stream_table(query)
    say(f"{query}: {result}")


def _note(result: dict[str, Any], name: str, began: float, facts: dict[str, Any]) -> None:
    one = result.setdefault(name, {"ms": [], "facts": {}})
    one["ms"].append(round((time.perf_counter() - began) * 1000, 1))
    one["facts"] = facts


def summary(results: dict[str, Any]) -> list[str]:
    """Say in one line for each engine how it compares with the views."""
    lines = []
    [run] = results["runs"]
    for engine in ENGINES:
        rows = {
            q: (statistics.median(r["view"]["ms"]), statistics.median(r[engine]["ms"]))
            for q, r in run["queries"].items()
            if engine in r and "failure" not in r
        }
        if rows:
            ratios = {q: v / o for q, (v, o) in rows.items()}
            lines.append(
                f"{engine}: geometric mean {geometric_mean(ratios.values()):.2f}x, "
                + ", ".join(
                    f"{q} {rows[q][0]:.0f}/{rows[q][1]:.0f}={x:.2f}" for q, x in ratios.items()
                )
            )
    return lines


if __name__ == "__main__":
    sys.exit(main())
