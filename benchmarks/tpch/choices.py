"""``make bench-choices``: whether ``engine = auto`` takes the best of three ways to refresh.

    python -m benchmarks.tpch.choices [--scale N] [--share A,B,...] [--rounds N] [QUERY ...]

Each query has four stream tables.  The first has ``engine = auto``, and the cost model chooses.
The others always go one way: the changes by Spark, the changes by PostgreSQL, everything anew.
After each window of changes all four are refreshed.  A choice is right if the chosen way took at
most a fifth longer than the quickest of the three.  A full refresh is the same work whatever a
small window holds: up to 1 % it is measured in the first share alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pgtrickle
from benchmarks.cells import TOLERANCE
from benchmarks.ratios import failures
from benchmarks.report.tables import print_tables
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.tpch.database import Database, add_options, open_database, shares_of
from pgtrickle.model.stream_table import Action
from pgtrickle.settings import Settings
from pgtrickle.spark.engine import SparkEngine

AUTO = "auto"
WAYS = SPARK, POSTGRES, FULL = "spark", "postgres", "full"
_SHARES = (0.0001, 0.001, 0.01, 0.1, 0.5)
_SMALL = 0.01
_IN_POSTGRES = "computed by PostgreSQL"  # in the reason of a refresh
_GOAL = 0.95
_COLUMNS = ("query", "changed", *(f"{way} ms" for way in WAYS), "choice", "chosen / best", "right")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all shares, print the choices, write the results."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="benchmarks.tpch.choices", description=__doc__)
    add_options(parser, _SHARES)
    parser.add_argument("--warm-up", type=int, default=2, help="windows that do not count")
    parser.add_argument("--rounds", type=int, default=3, help="windows for each share")
    options = parser.parse_args(arguments)
    with open_database(options) as database:
        engine = SparkEngine(database.dsn)
        with pgtrickle.connect(
            database.dsn, engine=engine, settings=Settings(), init=True
        ) as trickle:
            runs = _Choices(database, trickle).play(shares_of(options), options)
        results = describe_run(
            "benchmarks.tpch.choices",
            arguments,
            database.connection,
            scale=options.scale,
            runs=runs,
            **tables_of_choices(runs, options.scale),
        )
    print_tables(results)
    if options.output:
        write_results(options.output, results)
    return 1 if failures(results) else 0


class _Choices:
    """One run over a database: what each way took, by share and query."""

    def __init__(self, database: Database, trickle: pgtrickle.Trickle) -> None:
        self._database = database
        self._trickle = trickle
        self._full_known: dict[str, list[float]] = {}  # of small windows
        self._failures: dict[str, str] = {}

    def play(self, shares: Sequence[float], options: argparse.Namespace) -> list[dict[str, Any]]:
        """Make the stream tables, warm up, and go from share to share."""
        self._create()
        for _ in range(options.warm_up):
            self._window(shares[0], {query: {} for query in self._database.queries}, full=True)
        return [self._share(share, options.rounds) for share in shares]

    def _create(self) -> None:
        known = {table.name.name for table in self._trickle.list_stream_tables()}
        for query, sql in self._database.queries.items():
            for way in (AUTO, *WAYS):
                if _table(query, way) in known:
                    continue
                say(f"creating {_table(query, way)}")
                self._trickle.create_stream_table(
                    _table(query, way),
                    sql,
                    refresh_mode="DIFFERENTIAL" if way in (SPARK, POSTGRES) else "AUTO",
                    engine=way if way in (SPARK, POSTGRES) else AUTO,
                )

    def _share(self, share: float, rounds: int) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {query: {} for query in self._database.queries}
        for number in range(rounds):
            first = share > _SMALL or not self._full_known
            self._window(share, found, full=number == 0 and first)
        for query, one in found.items():
            if share <= _SMALL and FULL in one:
                self._full_known[query] = one[FULL]
            one.setdefault(FULL, self._full_known.get(query, []))
            self._verify(query, one)
        return {"share": share, "queries": found}

    def _window(self, share: float, found: dict[str, dict[str, Any]], *, full: bool) -> None:
        self._database.change(share)
        for query in self._database.queries:
            for way in (AUTO, SPARK, POSTGRES, *([FULL] if full else [])):
                self._refresh(query, way, found[query])

    def _refresh(self, query: str, way: str, found: dict[str, Any]) -> None:
        if query in self._failures:
            return
        try:
            report = self._trickle.refresh_stream_table(_table(query, way), full=way == FULL)
        except Exception as error:  # noqa: BLE001 - the other queries go on
            self._failures[query] = f"{type(error).__name__}: {error}"
            say(f"{query}: {self._failures[query]}")
            return
        say(f"{query}, {way}: {report.duration_ms:.0f} ms, {report.reason}")
        found.setdefault(way, []).append(round(report.duration_ms, 1))
        if way == AUTO:
            found.setdefault("choices", []).append(way_of(report.action, report.reason))

    def _verify(self, query: str, found: dict[str, Any]) -> None:
        for way in (AUTO, SPARK, POSTGRES):
            if query in self._failures:
                break
            if not self._trickle.verify_stream_table(_table(query, way)).ok:
                self._failures[query] = f"{way} differs from PostgreSQL's own answer"
        if query in self._failures:
            found["failure"] = self._failures[query]


def _table(query: str, way: str) -> str:
    return f"{query}_{way}"


def way_of(action: Action, reason: str) -> str:
    """Return the way that a refresh went.

    >>> way_of(Action.DIFFERENTIAL, "10 changes; computed by PostgreSQL, predicted 5 ms")
    'postgres'
    >>> way_of(Action.FULL, "computed by PostgreSQL")
    'full'
    """
    if action is not Action.DIFFERENTIAL:
        return FULL
    return POSTGRES if _IN_POSTGRES in reason else SPARK


def tables_of_choices(runs: Sequence[Mapping[str, Any]], scale: float) -> dict[str, Any]:
    """Return the choices as tables: a summary, and one row for each query and share."""
    rows, right = [], 0
    for run in runs:
        for query, found in run["queries"].items():
            times = {way: statistics.median(found[way]) for way in WAYS if found.get(way)}
            if "failure" in found or set(times) != set(WAYS):
                continue
            choice = statistics.mode(found["choices"])
            ratio = times[choice] / min(times.values())
            right += ratio <= TOLERANCE
            share = f"{run['share'] * 100:g} %"
            verdict = "yes" if ratio <= TOLERANCE else "no"
            rows.append([query, share, *times.values(), choice, round(ratio, 2), verdict])
    part = round(right / len(rows), 3) if rows else 0.0
    return {
        "title": f"The choice among three ways on TPC-H at scale factor {scale:g}",
        "tables": [
            {
                "columns": ["cells", "within 20 % of the best way", "part", "goal"],
                "rows": [[len(rows), right, part, f"at least {_GOAL}"]],
            },
            {"title": "Each query at each share", "columns": list(_COLUMNS), "rows": rows},
        ],
        "notes": ["A full refresh of a window up to 1 % is measured at the first share."],
    }


if __name__ == "__main__":
    sys.exit(main())
