"""Measure what capture by triggers and from the log costs writers, and how fast the log is read.

    python -m benchmarks.wal_capture [--dsn DSN] [--rounds N] [--rows N] [--capture wal]

Without ``--dsn`` it starts an embedded server in a temporary directory.  Each round runs the same
bulk statements on a plain table and on one that 0, 1 or 10 stream tables read, one right after
the other and in turns; the figures are medians of the times and of the ratios of such pairs.  With
0 dependants both tables are plain: that ratio is the noise of the run.  A checkpoint precedes every
statement.  The log is read after the statements of a round and not during them: it is another
process that reads it, on another core if there is one.  Reading is timed apart, with nothing else
in the log; it counts everything from the slot to the committed buffer rows.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.capture_overhead import CREATE, DELETE, INSERT, UPDATE, database
from pgtrickle.capture.buffers import buffer_of
from pgtrickle.client.trickle import Trickle
from pgtrickle.service.capturing.drain_wal import drain_wal

STATEMENTS = {"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE}
TABLES = ("plain", "captured")
SETUPS = (("none", 0), ("trigger", 1), ("trigger", 10), ("wal", 1), ("wal", 10))
# It would fall into some statements and not into others.
_NO_AUTOVACUUM = sql.SQL("ALTER TABLE {table} SET (autovacuum_enabled = off)")
# What the dependants read, in turn: 5 of 7 columns together.
QUERIES = (
    "SELECT id, customer_id, product_id, qty, price FROM captured",
    "SELECT customer_id, sum(qty * price) AS v FROM captured GROUP BY customer_id",
    "SELECT product_id, count(*) AS n FROM captured GROUP BY product_id",
)


@dataclass
class Results:
    """Times of statements by setup, statement and table, and rates of reading by statement."""

    writes: dict[tuple[str, int], dict[str, dict[str, list[float]]]] = field(default_factory=dict)
    rates: dict[str, list[float]] = field(default_factory=dict)


def main() -> int:
    """Run the measurements and print them as Markdown."""
    parser = argparse.ArgumentParser(description="Measure capture by triggers and from the log.")
    parser.add_argument("--dsn", help="a server whose role may create databases and slots")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a bulk statement")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--capture", nargs="+", default=["none", "trigger", "wal"])
    arguments = parser.parse_args()
    results = Results()
    with (
        database(arguments.dsn) as dsn,
        pgtrickle.connect(dsn, init=True) as trickle,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        version = connection.info.parameter_status("server_version")
        _print(f"PostgreSQL {version}, medians of {arguments.rounds} rounds\n")
        _print("| capture | dependants | statement | plain ms | captured ms | ratio |")
        _print("|---|---:|---|---:|---:|---:|")
        for mode, dependants in [one for one in SETUPS if one[0] in arguments.capture]:
            with _tables(trickle, connection, mode, dependants):
                measure(trickle, connection, mode, dependants, arguments, results)
                _print_writes(results, mode, dependants, arguments.rows)
                if (mode, dependants) == ("wal", 1):
                    measure_reading(trickle, connection, arguments, results)
    _print_rates(results, arguments.rows)
    return 0


def measure(
    trickle: Trickle,
    connection: Connection[TupleRow],
    mode: str,
    dependants: int,
    arguments: argparse.Namespace,
    results: Results,
) -> None:
    """Time the bulk statements on both tables."""
    samples = results.writes.setdefault((mode, dependants), {})
    for number in range(arguments.rounds):
        _empty(connection)
        for name, statement in STATEMENTS.items():
            for table in TABLES if number % 2 else TABLES[::-1]:
                connection.execute("CHECKPOINT")
                query = sql.SQL(statement).format(table=sql.Identifier(table))
                began = time.perf_counter()
                connection.execute(query, {"rows": arguments.rows})
                spent = time.perf_counter() - began
                samples.setdefault(name, {}).setdefault(table, []).append(spent * 1000)
        if mode == "wal":
            _drain(trickle)


def measure_reading(
    trickle: Trickle,
    connection: Connection[TupleRow],
    arguments: argparse.Namespace,
    results: Results,
) -> None:
    """Time how long the changes of each bulk statement take from the log to the buffer."""
    for _ in range(arguments.rounds):
        _empty(connection)
        _drain(trickle)
        for name, statement in STATEMENTS.items():
            query = sql.SQL(statement).format(table=sql.Identifier("captured"))
            connection.execute(query, {"rows": arguments.rows})
            began = time.perf_counter()
            changes = _drain(trickle)
            spent = time.perf_counter() - began
            results.rates.setdefault(name, []).append(changes / spent)


def _drain(trickle: Trickle) -> int:
    return drain_wal(trickle._runtime).changes  # noqa: SLF001 - what a refresh calls


@contextmanager
def _tables(
    trickle: Trickle, connection: Connection[TupleRow], mode: str, dependants: int
) -> Iterator[None]:
    """Make both tables, and stream tables over one of them; nothing is loaded, so no Spark."""
    for table in TABLES:
        connection.execute(sql.SQL(CREATE).format(table=sql.Identifier(table)))
        connection.execute(_NO_AUTOVACUUM.format(table=sql.Identifier(table)))
    names = [f"dependant_{number}" for number in range(dependants)]
    for number, name in enumerate(names):
        query = QUERIES[number % len(QUERIES)]
        trickle.create_stream_table(name, query, initialize=False, cdc_mode=mode)
    yield
    for name in names:
        trickle.drop_stream_table(name)


def _empty(connection: Connection[TupleRow]) -> None:
    connection.execute("TRUNCATE plain, captured")
    [(relid,)] = connection.execute("SELECT 'captured'::regclass::oid").fetchall()
    buffer = buffer_of(relid)
    [(exists,)] = connection.execute("SELECT to_regclass(%s)", [buffer.sql]).fetchall()
    if exists:
        connection.execute(
            sql.SQL("TRUNCATE {}").format(sql.Identifier(buffer.schema, buffer.name))
        )


def _print_writes(results: Results, mode: str, dependants: int, rows: int) -> None:
    for name, found in results.writes[mode, dependants].items():
        plain, captured = (statistics.median(found[table]) for table in TABLES)
        pairs = zip(found["captured"], found["plain"], strict=True)
        ratio = statistics.median(one / other for one, other in pairs)
        _print(
            f"| {mode} | {dependants} | {name} {rows:,} rows | {plain:.0f} | {captured:.0f}"
            f" | {ratio:.2f} |"
        )


def _print_rates(results: Results, rows: int) -> None:
    _print("\n| reading the log | changes/s, median | best |\n|---|---:|---:|")
    for name, found in results.rates.items():
        _print(f"| {name} {rows:,} rows | {statistics.median(found):,.0f} | {max(found):,.0f} |")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
