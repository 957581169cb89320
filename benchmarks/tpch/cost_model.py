"""``make bench-cost-model``: whether the cost model chooses the better refresh, query by share.

    python -m benchmarks.tpch.cost_model [--scale N] [--share A,B,...] [--rounds N] [QUERY ...]

For every share of changed rows there are two windows a round.  After the first, each stream table
is refreshed under AUTO: the cost model chooses, from its prices and what this table's refreshes
have taken so far.  After the second the action that did not run is forced.  So both are measured
on real changes, and the choice was made before the other one was.

A full refresh of a small window is the same work whatever the share: up to 1 % it is measured
once, at the first share, and that time stands for the other small ones; AUTO runs again instead.
The last window to warm up is refreshed in full, for the first full refresh of a process is slow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import pgtrickle
from benchmarks.ratios import failures
from benchmarks.report.cost_model import cost_model_table
from benchmarks.results import describe_run, write_results
from benchmarks.say import say
from benchmarks.tpch.database import Database, add_options, open_database, shares_of
from pgtrickle.model.stream_table import Action
from pgtrickle.settings import Settings
from pgtrickle.spark.engine import SparkEngine

_SHARES = (0.0001, 0.001, 0.01, 0.1, 0.5)
_SMALL = 0.01
_EXPLORES = "is tried again to measure it"  # in the reason of a refresh
_OTHER = {Action.DIFFERENTIAL: Action.FULL, Action.FULL: Action.DIFFERENTIAL}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all shares, print the table, write the results."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="benchmarks.tpch.cost_model", description=__doc__)
    add_options(parser, _SHARES)
    parser.add_argument("--warm-up", type=int, default=2, help="windows that do not count")
    parser.add_argument("--rounds", type=int, default=1, help="pairs of windows for each share")
    parser.add_argument(
        "--small-rounds",
        type=int,
        default=3,
        help="the same for shares up to 1 %%, which are cheap",
    )
    options = parser.parse_args(arguments)
    with open_database(options) as database:
        first = database.next_window()
        matrix = _Matrix(database, options)
        results = describe_run(
            "benchmarks.tpch.cost_model",
            arguments,
            database.connection,
            scale=options.scale,
            first_window=first,
            runs=matrix.play(shares_of(options)),
        )
    print(cost_model_table(results))
    if options.output:
        write_results(options.output, results)
    return 1 if failures(results) else 0


class _Matrix:
    """One run over a database: what each refresh took, by share and query."""

    def __init__(self, database: Database, options: argparse.Namespace) -> None:
        self._database = database
        self._options = options
        self._full_known: set[str] = set()  # queries with a full refresh of a small window
        self._failures: dict[str, str] = {}

    def play(self, shares: Sequence[float]) -> list[dict[str, Any]]:
        """Make the stream tables, warm up, and go from share to share."""
        dsn = self._database.dsn
        with pgtrickle.connect(
            dsn, engine=SparkEngine(dsn), settings=Settings(), init=True
        ) as trickle:
            self._create(trickle)
            for left in reversed(range(self._options.warm_up)):
                self._database.change(shares[0])
                for query in self._database.queries:
                    self._refresh(trickle, query, None if left else Action.FULL)
            return [self._run(trickle, share) for share in shares]

    def _create(self, trickle: pgtrickle.Trickle) -> None:
        known = {table.name.name for table in trickle.list_stream_tables()}
        for query, sql in self._database.queries.items():
            say(f"{query}: creating the stream table")
            if query in known:
                trickle.alter_stream_table(query, refresh_mode="AUTO")
            else:
                trickle.create_stream_table(query, sql, refresh_mode="AUTO")

    def _run(self, trickle: pgtrickle.Trickle, share: float) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {query: {} for query in self._database.queries}
        for query, failure in self._failures.items():
            found[query]["failure"] = failure
        options = self._options
        for _ in range(options.small_rounds if share <= _SMALL else options.rounds):
            ran: dict[str, Action] = {}
            self._database.change(share)
            for query in self._database.queries:
                if one := self._refresh(trickle, query):
                    found[query].setdefault("refreshes", []).append({**one, "forced": False})
                    ran[query] = Action(one["action"])
            self._database.change(share)
            for query, action in ran.items():
                other = _OTHER.get(action)
                if other is Action.FULL and query in self._full_known and share <= _SMALL:
                    other = None
                if one := self._refresh(trickle, query, other):
                    found[query]["refreshes"].append({**one, "forced": other is not None})
                    if share <= _SMALL and Action.FULL in (action, other):
                        self._full_known.add(query)
        for query in self._database.queries:
            self._verify(trickle, query, found[query])
        return {"share": share, "queries": found}

    def _refresh(
        self, trickle: pgtrickle.Trickle, query: str, forced: Action | None = None
    ) -> dict[str, Any] | None:
        """Refresh under AUTO, or in one way; None if it failed, now or before."""
        if query in self._failures:
            return None
        try:
            if forced is Action.DIFFERENTIAL:
                trickle.alter_stream_table(query, refresh_mode="DIFFERENTIAL")
            report = trickle.refresh_stream_table(query, full=forced is Action.FULL)
            if forced is Action.DIFFERENTIAL:
                trickle.alter_stream_table(query, refresh_mode="AUTO")
        except Exception as error:  # noqa: BLE001 - the other queries go on
            self._failures[query] = f"{type(error).__name__}: {error}"
            say(f"{query}: {self._failures[query]}")
            return None
        [recorded] = trickle.refresh_history(query, limit=1)
        say(f"{query}: {report.action.value} {report.duration_ms:.0f} ms, {report.reason}")
        return {
            "action": report.action.value,
            "reason": report.reason,
            "explores": _EXPLORES in report.reason,
            "ms": round(report.duration_ms, 1),
            "predicted_differential_ms": recorded.predicted_differential_ms,
            "predicted_full_ms": recorded.predicted_full_ms,
        }

    def _verify(self, trickle: pgtrickle.Trickle, query: str, found: dict[str, Any]) -> None:
        if query not in self._failures and not trickle.verify_stream_table(query).ok:
            self._failures[query] = "differs from PostgreSQL's own answer"
            say(f"{query}: {self._failures[query]}")
        if query in self._failures:
            found["failure"] = self._failures[query]


if __name__ == "__main__":
    sys.exit(main())
