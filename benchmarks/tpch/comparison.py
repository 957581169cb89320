"""Lets the contenders refresh after the same windows of changes, and keeps what each took."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pgtrickle
from benchmarks.engine_option import engine_settings
from benchmarks.say import say, say_progress
from benchmarks.tpch.contenders import Contender, Ours, PlainSpark, View
from benchmarks.tpch.database import Database
from benchmarks.tpch.duckdb_parquet import DuckDbParquet
from benchmarks.tpch.pathway_streaming import Pathway
from pgtrickle.spark.engine import SparkEngine

# What takes long and differs little from window to window: they refresh after the last ones only.
FULL = frozenset({"spark", "ours_full", "duckdb"})
_COUNT_DIFFERENCES = """
    SELECT count(*) FROM ((TABLE {left} EXCEPT ALL TABLE {right})
                          UNION ALL (TABLE {right} EXCEPT ALL TABLE {left})) AS differences
"""

Found = dict[str, dict[str, Any]]


class Comparison:
    """One run over a database: the contenders and what they took."""

    def __init__(self, database: Database, options: argparse.Namespace, scratch: Path) -> None:
        self._database = database
        self._options = options
        self._duckdb = DuckDbParquet(database.dsn, database.tables, scratch)
        self._pathway = Pathway(database.connection, scratch)
        self._warmed_up = 0

    def play(self, shares: Sequence[float]) -> list[dict[str, Any]]:
        """Warm up once, then measure each share; return one run for each."""
        engine = SparkEngine(self._database.dsn)
        with (
            pgtrickle.connect(
                self._database.dsn,
                engine=engine,
                settings=engine_settings(self._options),
                init=True,
            ) as trickle,
            closing(self._pathway),
        ):
            contenders = self._contenders(trickle, engine)
            trickle.on_progress(say_progress)
            prepared = self._prepare(contenders)
            trickle.on_progress(None)  # not while times are taken
            self._warm_up(contenders, prepared, shares[0])
            return [self._measure(trickle, contenders, prepared, share) for share in shares]

    def _contenders(self, trickle: pgtrickle.Trickle, engine: SparkEngine) -> list[Contender]:
        found: list[Contender] = [
            Ours(trickle, mode=self._options.mode),
            View(self._database.connection),
            PlainSpark(self._database.connection, engine, self._database.dsn),
            Ours(trickle, "ours_full", full=True),
            self._duckdb,
            self._pathway,
        ]
        found = [one for one in found if one.name not in self._options.without]
        if self._pathway in found and (reason := self._pathway.why_not()):
            say(f"without Pathway: {reason}")
            found.remove(self._pathway)
        return found

    def _prepare(self, contenders: Sequence[Contender]) -> Found:
        prepared: Found = {}
        for name, sql in self._database.queries.items():
            prepared[name] = {}
            for contender in contenders:
                if took := contender.prepare(name, sql):
                    say(f"{name}: {contender.name} prepared in {took.ms / 1000:.1f} s")
                    prepared[name][contender.name] = round(took.ms)
        return prepared

    def _warm_up(self, contenders: Sequence[Contender], prepared: Found, share: float) -> None:
        found = _empty(prepared)
        for number in range(1, self._options.warm_up + 1):
            self._database.change(share)
            last = number == self._options.warm_up
            for contender in contenders:
                if last or contender.name == "ours":
                    self._refresh_all(contender, found)
            self._warmed_up += 1
        for name, result in found.items():
            if "failure" in result:
                prepared[name]["failure"] = result["failure"]

    def _measure(
        self,
        trickle: pgtrickle.Trickle,
        contenders: Sequence[Contender],
        prepared: Found,
        share: float,
    ) -> dict[str, Any]:
        found = _empty(prepared)
        rounds = self._options.rounds
        for number in range(1, rounds + 1):
            self._database.change(share)
            for contender in contenders:
                if contender.name in FULL and number <= rounds - self._options.full_rounds:
                    continue
                self._refresh_all(contender, found)
            if "view" not in self._options.without or number == rounds:
                for name, result in found.items():
                    self._verify(trickle, name, result)
        run = {"share": share, "warm_up_refreshes": self._warmed_up, "queries": found}
        self._warmed_up += rounds
        return run

    def _refresh_all(self, contender: Contender, found: Found) -> None:
        if contender is self._duckdb:
            say("writing Parquet files")
            self._duckdb.begin()
        for name, sql in self._database.queries.items():
            if "failure" not in found[name] and contender.name in found[name]:
                self._refresh(contender, name, sql, found[name])

    @staticmethod
    def _refresh(contender: Contender, name: str, sql: str, result: dict[str, Any]) -> None:
        try:
            took = contender.refresh(name, sql)
        except Exception as error:  # noqa: BLE001 - the other queries go on
            result["failure"] = f"{contender.name}: {type(error).__name__}: {error}"
            say(f"{name}: {result['failure']}")
            return
        say(f"{name}: {contender.name} {took.ms:.0f} ms {took.facts.get('timings_ms', '')}")
        result[contender.name]["ms"].append(round(took.ms, 1))
        result[contender.name]["facts"] = took.facts  # the last window's speak for all

    def _verify(self, trickle: pgtrickle.Trickle, name: str, result: dict[str, Any]) -> None:
        """Compare with the view, which PostgreSQL has just computed, or else let it compute."""
        if "failure" in result or "ours" not in result:
            return
        if "view" in result:
            statement = _COUNT_DIFFERENCES.format(left=name, right=f"view_{name}")
            [(count,)] = self._database.connection.execute(statement.encode()).fetchall()
        else:
            report = trickle.verify_stream_table(name)
            count = report.missing + report.extra
        if count:
            result["failure"] = f"{count} rows differ from PostgreSQL's own answer"
            say(f"{name}: {result['failure']}")


def _empty(prepared: Found) -> Found:
    return {
        name: {
            contender: {"prepare_ms": ms, "ms": [], "facts": {}} if contender != "failure" else ms
            for contender, ms in by_contender.items()
        }
        for name, by_contender in prepared.items()
    }
