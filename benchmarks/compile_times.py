"""Measure how long the compiler takes: for joins of many tables, and for the analytical corpus.

    python -m benchmarks.compile_times [--tables 20,64] [--rounds N] [--queries N] [--output FILE]

Each query is bound by PostgreSQL, lowered, cut into stages, checked, and planned for a refresh in
which every source has changed.  ``own work`` is the processor time of this process: what remains is
PostgreSQL's, and waiting for a processor.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from benchmarks.say import say
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, load_settings
from tests.workloads.compile_time import CompileTime, measure_compile
from tests.workloads.corpus.workload import CORPUS

# The tables before it to which each table of a join is joined.
_SHAPES: Mapping[str, Callable[[int], list[int]]] = {
    "chain": lambda number: [number - 1],
    "star": lambda _: [0],
    "snowflake": lambda number: [(number - 1) // 3],
    "clique": lambda number: list(range(number)),
}
_GOALS = {20: 1000, 64: 10_000}  # milliseconds for joins of so many tables
_CORPUS_GOAL = 50  # for the median


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print the tables; 1 if a goal is missed."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="compile_times", description=__doc__)
    parser.add_argument("--tables", default="20,64", help="numbers of tables, with commas")
    parser.add_argument("--rounds", type=int, default=5, help="compilations; the median counts")
    parser.add_argument("--queries", type=int, help="of the corpus; default: all")
    parser.add_argument("--dsn", help="a server to use; default: an embedded one")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args(argv)
    if options.dsn:
        results = _run(options.dsn, argv, options)
    else:
        with (
            tempfile.TemporaryDirectory() as directory,
            start_embedded(Path(directory) / "server") as server,
        ):
            results = _run(server.dsn, argv, options)
    print_tables(results)
    if options.output:
        write_results(options.output, results)
    return int(any(row[-1] == "missed" for one in results["tables"] for row in one["rows"]))


def _run(dsn: str, argv: Sequence[str], options: argparse.Namespace) -> Results:
    settings = load_settings({}, dsn=dsn, engine=POSTGRES)
    with (
        pgtrickle.connect(dsn, settings=settings, init=True),
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        numbers = [int(one) for one in options.tables.split(",")]
        joins = list(_joins(connection, numbers, options.rounds))
        corpus = _corpus(connection, options.rounds, options.queries)
        return describe_run(
            "benchmarks.compile_times",
            argv,
            connection,
            title="Compiling a query",
            tables=[
                {
                    "columns": ["query", "median ms", "own work ms", "goal ms", "result"],
                    "rows": [*joins, corpus],
                }
            ],
            notes=[f"Medians of {options.rounds} compilations of each query."],
        )


def _joins(
    connection: Connection[TupleRow], numbers: Sequence[int], rounds: int
) -> Iterator[list[object]]:
    most = max(numbers)
    keys = ", ".join(f"k{number} int" for number in range(most))
    for number in range(most):
        connection.execute(f"CREATE TABLE r{number} (id int, k int, {keys}, c int)".encode())
    for number in numbers:
        for shape in _SHAPES:
            say(f"{shape} of {number} tables")
            query = f"SELECT r0.c, count(*) AS n FROM {_joined(shape, number)} GROUP BY r0.c"
            found = _measure(connection, query, rounds)
            yield _row(f"{shape} of {number} tables", found, _GOALS.get(number))


def _joined(shape: str, tables: int) -> str:
    text = "r0"
    for number in range(1, tables):
        key = f"k{number}" if shape == "star" else "k"
        on = " AND ".join(f"r{other}.{key} = r{number}.id" for other in _SHAPES[shape](number))
        text += f" JOIN r{number} ON {on}"
    return text


def _corpus(connection: Connection[TupleRow], rounds: int, most: int | None) -> list[object]:
    CORPUS.load(connection)
    found = []
    for name, query in list(CORPUS.queries.items())[:most]:
        say(name)
        found.append(_measure(connection, query, rounds))
    whole = CompileTime(
        statistics.median(one.elapsed for one in found), statistics.median(one.own for one in found)
    )
    return _row(f"median of {len(found)} queries of the corpus", whole, _CORPUS_GOAL)


def _measure(connection: Connection[TupleRow], query: str, rounds: int) -> CompileTime:
    found = [measure_compile(connection, query) for _ in range(rounds)]
    return CompileTime(
        statistics.median(one.elapsed for one in found), statistics.median(one.own for one in found)
    )


def _row(what: str, found: CompileTime, goal: int | None) -> list[object]:
    reached = "-" if goal is None else "reached" if found.elapsed <= goal else "missed"
    return [what, round(found.elapsed, 1), round(found.own, 1), goal or "-", reached]


if __name__ == "__main__":
    sys.exit(main())
