"""``make bench-tpch``: the 22 queries of TPC-H, maintained beside what one would do instead.

For each window of changes every contender brings its answer up to date, one query after the other,
on the same data and server.  A time counts after the stream table was found equal to PostgreSQL's
own answer.  Results go to a JSON file, from which ``benchmarks.report`` draws tables and plots.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.machine import describe_machine
from benchmarks.ratios import geometric_mean, medians, ratios
from benchmarks.tpch.changes import change, share_for_rows
from benchmarks.tpch.contenders import Contender, Ours, PlainSpark, Timed, View
from benchmarks.tpch.duckdb_parquet import DuckDbParquet
from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import Settings
from pgtrickle.spark.engine import SparkEngine
from tests.fixtures.postgres import enterable_directory
from tests.workloads.tpch.workload import load_scale, queries_at

_FULL = frozenset({"spark", "ours_full", "duckdb"})
_COUNT_DIFFERENCES = """
    SELECT count(*) FROM ((TABLE {left} EXCEPT ALL TABLE {right})
                          UNION ALL (TABLE {right} EXCEPT ALL TABLE {left})) AS differences
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison, print a table, write the results."""
    options = _parser().parse_args(arguments)
    queries = {
        name: sql
        for name, sql in queries_at(options.scale).items()
        if not options.queries or name in options.queries
    }
    with (
        _home(options.home) as home,
        start_embedded(home) as server,
        psycopg.connect(server.dsn, autocommit=True) as connection,
        tempfile.TemporaryDirectory() as scratch,
    ):
        run = _Run(connection, server.dsn, options, Path(scratch))
        results = run.play(queries)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(one.get("failure") for one in results["queries"].values()) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.tpch", description=__doc__)
    parser.add_argument("queries", nargs="*", help="such as q03; all 22 by default")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument(
        "--share", type=float, default=0.001, help="of rows that each window changes"
    )
    parser.add_argument("--rows", type=int, help="about so many rows instead of a share")
    parser.add_argument("--warm-up", type=int, default=2, help="windows that do not count")
    parser.add_argument("--rounds", type=int, default=5, help="windows that count")
    parser.add_argument("--first-round", type=int, help="number of the first window")
    parser.add_argument("--without", action="append", default=[], help="leave a contender out")
    parser.add_argument(
        "--full-rounds", type=int, default=1, help="windows with full recomputation"
    )
    parser.add_argument("--home", type=Path, help="keep the database here, and use what is there")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    return parser


@contextmanager
def _home(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory
        return
    with enterable_directory() as temporary:
        yield temporary / "home"


class _Run:
    """One run: the data, the contenders and what they took."""

    def __init__(
        self,
        connection: Connection[TupleRow],
        dsn: str,
        options: argparse.Namespace,
        scratch: Path,
    ) -> None:
        self._duckdb = DuckDbParquet(dsn, scratch)
        self._connection = connection
        self._dsn = dsn
        self._options = options
        self._share = share_for_rows(options.rows, options.scale) if options.rows else options.share

    def play(self, queries: dict[str, str]) -> dict[str, Any]:
        """Load what is missing, then change and refresh, window after window."""
        self._load()
        engine = SparkEngine(self._dsn)
        with pgtrickle.connect(self._dsn, engine=engine, settings=Settings()) as trickle:
            contenders: list[Contender] = [
                Ours(trickle),
                View(self._connection),
                PlainSpark(self._connection, engine, self._dsn),
                Ours(trickle, "ours_full", full=True),
                self._duckdb,
            ]
            contenders = [one for one in contenders if one.name not in self._options.without]
            results = {name: self._prepare(name, sql, contenders) for name, sql in queries.items()}
            first = self._options.first_round or self._next_round()
            last = self._options.warm_up + self._options.rounds
            for number in range(1, last + 1):
                self._window(first + number - 1)
                for contender in contenders:
                    full = contender.name in _FULL
                    if full and number <= last - self._options.full_rounds:
                        continue
                    if contender is self._duckdb:
                        _say("writing Parquet files")
                        self._duckdb.begin()
                    for name, sql in queries.items():
                        if "failure" not in results[name]:
                            counts = full or number > self._options.warm_up
                            self._refresh(contender, name, sql, results[name], counts=counts)
                if number == 1:
                    for name in queries:
                        self._verify(name, results[name])
            for name in queries:
                self._verify(name, results[name])
            self._print(results, contenders)
        return {
            "machine": describe_machine(self._connection),
            "command": " ".join(["python -m benchmarks.tpch", *sys.argv[1:]]),
            "scale": self._options.scale,
            "share": self._share,
            "queries": results,
        }

    def _load(self) -> None:
        [(found,)] = self._connection.execute("SELECT to_regclass('lineitem') IS NULL").fetchall()
        if found:
            _say(f"loading scale factor {self._options.scale:g}")
            load_scale(self._connection, self._options.scale)
            self._connection.execute("VACUUM ANALYZE")

    def _next_round(self) -> int:
        self._connection.execute("CREATE TABLE IF NOT EXISTS bench_rounds (round integer)")
        [(number,)] = self._connection.execute(
            "SELECT COALESCE(max(round), 0) + 1 FROM bench_rounds"
        ).fetchall()
        return int(number)

    def _window(self, number: int) -> None:
        _say(f"window {number}: changing {self._share:.4%} of the rows")
        change(self._connection, self._share, number)
        self._connection.execute("INSERT INTO bench_rounds VALUES (%s)", [number])

    def _prepare(self, name: str, sql: str, contenders: Sequence[Contender]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for contender in contenders:
            took = contender.prepare(name, sql)
            _say(f"{name}: {contender.name} prepared in {took.ms / 1000:.1f} s")
            result[contender.name] = {"prepare_ms": round(took.ms), "ms": [], "facts": []}
        return result

    def _refresh(
        self, contender: Contender, name: str, sql: str, result: dict[str, Any], *, counts: bool
    ) -> None:
        try:
            took: Timed = contender.refresh(name, sql)
        except Exception as error:  # noqa: BLE001 - the other queries go on
            result["failure"] = f"{contender.name}: {type(error).__name__}: {error}"
            _say(f"{name}: {result['failure']}")
            return
        _say(f"{name}: {contender.name} {took.ms:.0f} ms {took.facts.get('timings_ms', '')}")
        if counts:
            result[contender.name]["ms"].append(round(took.ms, 1))
            result[contender.name]["facts"].append(took.facts)

    def _verify(self, name: str, result: dict[str, Any]) -> None:
        """Compare with the view, which PostgreSQL has just computed from the same data."""
        if "failure" in result or "view" not in result or "ours" not in result:
            return
        statement = _COUNT_DIFFERENCES.format(left=name, right=f"view_{name}")
        [(count,)] = self._connection.execute(statement.encode()).fetchall()
        if count:
            result["failure"] = f"{count} rows differ from PostgreSQL's own answer"
            _say(f"{name}: {result['failure']}")

    def _print(self, results: dict[str, Any], contenders: Sequence[Contender]) -> None:
        names = [one.name for one in contenders]
        print(f"\nscale {self._options.scale:g}, {self._share:.4%} of the rows changed\n")
        print("| query |" + "".join(f" {name} ms |" for name in names) + " rows read |")
        print("|---|" + "---:|" * (len(names) + 1))
        for query, result in results.items():
            if "failure" in result:
                print(f"| {query} | {result['failure']} |")
                continue
            times = medians(result)
            cells = "".join(f" {times.get(name, math.nan):.0f} |" for name in names)
            read = result["ours"]["facts"][-1]["rows_read"] if "ours" in result else ""
            print(f"| {query} |{cells} {read} |")
        for name, by_query in ratios({"queries": results}).items():
            mean, least = geometric_mean(by_query.values()), min(by_query.values())
            print(f"{name} / ours: geometric mean {mean:.2f}, least {least:.2f}")


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
