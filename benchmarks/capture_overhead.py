"""Measure what capture costs writers, and what a window costs readers.

    python benchmarks/capture_overhead.py [--dsn DSN] [--rounds N]

Without ``--dsn`` it starts an embedded server in a temporary directory.  Each round runs the same
statements on a plain table and on such that one or ten stream tables read, in turns; the figures
are medians and their ratio.  The table of orders is empty at the start of each round and has its
primary key; the stream tables read 5 of its 7 columns.
A checkpoint precedes every bulk statement, so that it falls into none of them: the rows that a
statement changes have been written by then, as in most of a database's life.  Without it
(``--no-checkpoint``) the plain statements write no full-page images and the ratios are at worst.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow

import pgtrickle
from benchmarks.report.tables import print_tables
from benchmarks.results import Results, describe_run, write_results
from pgtrickle.capture.buffers import buffer_of, settled_of
from pgtrickle.capture.trim import settle_buffer
from pgtrickle.capture.windows import changed_sources, get_frontier
from pgtrickle.embedded.server import start_embedded
from pgtrickle.errors import InternalError
from pgtrickle.model.frontier import PgSnapshot
from pgtrickle.settings import Settings

CAPTURED = ("id", "customer_id", "product_id", "qty", "price")
DEPENDANTS = {"plain": 0, "captured": 1, "captured_by_ten": 10}  # stream tables, by source
TABLES = tuple(DEPENDANTS)
CREATE = """
    DROP TABLE IF EXISTS {table};
    CREATE TABLE {table} (
        id bigint PRIMARY KEY, customer_id int, product_id int, qty int, price numeric(10, 2),
        status text, created timestamptz
    )
"""
INSERT = """
    INSERT INTO {table}
    SELECT g, g %% 1000, g %% 100, g %% 7, (g %% 1000) / 10.0, 'new', now()
      FROM generate_series(1::bigint, %(rows)s) AS g
"""
UPDATE = "UPDATE {table} SET qty = qty + 1, status = 'paid' WHERE id <= %(rows)s"
DELETE = "DELETE FROM {table} WHERE id <= %(rows)s"
SINGLE = "INSERT INTO {table} VALUES (%(id)s, 1, 2, 3, 4.5, 'new', now())"

Samples = dict[str, dict[str, list[float]]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the measurements and print them as Markdown."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(description="Measure the cost of capture.")
    parser.add_argument("--dsn", help="a server whose role may create databases")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of a bulk statement")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--singles", type=int, default=1000, help="single-row INSERTs")
    parser.add_argument("--consumed", type=int, default=1_000_000, help="rows already read")
    parser.add_argument("--no-checkpoint", dest="checkpoint", action="store_false")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    arguments = parser.parse_args(argv)
    with (
        database(arguments.dsn) as dsn,
        psycopg.connect(dsn, autocommit=True) as connection,
    ):
        _create_all(dsn, connection)
        writes = measure_writes(
            connection, arguments.rows, arguments.rounds, checkpoint=arguments.checkpoint
        )
        writes |= measure_singles(connection, arguments.singles)
        windows = measure_windows(connection, arguments.consumed, arguments.rounds)
        results = describe_run(
            "benchmarks.capture_overhead",
            argv,
            connection,
            title="What capture costs writers",
            tables=[_overhead_table(writes), _windows_table(windows)],
            notes=[f"Medians of {arguments.rounds} rounds."],
        )
    print_tables(results)
    if arguments.output:
        write_results(arguments.output, results)
    return 0


def measure_writes(
    connection: Connection[TupleRow], rows: int, rounds: int, *, checkpoint: bool
) -> Samples:
    """Time the bulk statements on all tables."""
    statements = {"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE}
    samples: Samples = {f"{name} {rows:,} rows": {} for name in statements}
    for number in range(rounds):
        for table in TABLES if number % 2 else TABLES[::-1]:
            _empty(connection, table)
            for name, statement in statements.items():
                if checkpoint:
                    connection.execute("CHECKPOINT")
                duration = _time(connection, statement, table, rows=rows)
                samples[f"{name} {rows:,} rows"].setdefault(table, []).append(duration)
    return samples


def measure_singles(connection: Connection[TupleRow], count: int) -> Samples:
    """Time INSERTs of one row, each in its own, synchronous transaction."""
    connection.execute("SET synchronous_commit = on")
    samples: dict[str, list[float]] = {table: [] for table in TABLES}
    for table in TABLES:
        _empty(connection, table)
    for number in range(count):
        for table in TABLES if number % 2 else TABLES[::-1]:
            samples[table].append(_time(connection, SINGLE, table, id=number))
    return {"INSERT 1 row": samples}


def measure_windows(
    connection: Connection[TupleRow], consumed: int, rounds: int
) -> dict[str, list[float]]:
    """Time the question "what changed?" for 100 new rows behind many that were read."""
    relid = _empty(connection, "captured")
    _time(connection, INSERT, "captured", rows=consumed)
    frontier = get_frontier(connection).snapshot
    for number in range(100):
        _time(connection, SINGLE, "captured", id=-number)
    found: dict[str, list[float]] = {}
    window = [(relid, frontier)]
    found["100 new rows behind the consumed ones"] = _time_window(connection, window, rounds)
    settle_buffer(connection, relid, [frontier], consumed)
    found["the same, settled"] = _time_window(connection, window, rounds)
    for table in (buffer_of(relid), settled_of(relid)):
        connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(table.schema, table.name)))
    found["the same, settled and vacuumed"] = _time_window(connection, window, rounds)
    return found


def _time_window(
    connection: Connection[TupleRow], window: list[tuple[int, PgSnapshot]], rounds: int
) -> list[float]:
    durations = []
    for _ in range(rounds):
        began = time.perf_counter()
        [changes] = changed_sources(connection, window)
        durations.append((time.perf_counter() - began) * 1000)
        if changes.rows != 100:
            raise InternalError(f"the window holds {changes.rows} rows")
    return durations


def _create_all(dsn: str, connection: Connection[TupleRow]) -> None:
    """Create the tables and the stream tables over them; these stay empty, as nothing runs them."""
    with pgtrickle.connect(dsn, settings=Settings(), init=True) as trickle:
        for table, dependants in DEPENDANTS.items():
            connection.execute(sql.SQL(CREATE).format(table=sql.Identifier(table)))
            for number in range(dependants):
                query = f"SELECT {', '.join(CAPTURED)} FROM {table} WHERE qty <> {number}"
                name = f"{table}_{number}"
                trickle.create_stream_table(name, query, initialize=False)


def _empty(connection: Connection[TupleRow], table: str) -> int:
    """Make a table and its buffer as good as new, and return what its buffer is named after.

    Not by TRUNCATE: until the next refresh, capture would look twice at each statement.
    """
    for step in ("DELETE FROM {}", "VACUUM {}", "REINDEX TABLE {}"):
        connection.execute(sql.SQL(step).format(sql.Identifier(table)))
    relid = int(connection.execute("SELECT %s::regclass::oid", (table,)).fetchall()[0][0])
    if DEPENDANTS[table]:
        buffer = buffer_of(relid)
        listed = sql.Identifier(buffer.schema, buffer.name)
        connection.execute(sql.SQL("TRUNCATE {}").format(listed))
    return relid


def _time(connection: Connection[TupleRow], statement: str, table: str, **values: object) -> float:
    query = sql.SQL(statement).format(table=sql.Identifier(table))
    began = time.perf_counter()
    connection.execute(query, values)
    return (time.perf_counter() - began) * 1000


def _overhead_table(samples: Samples) -> Results:
    rows = []
    for name, found in samples.items():
        plain, one, ten = (statistics.median(found[table]) for table in TABLES)
        rows.append([name, plain, one, one / plain, ten, ten / plain])
    columns = [
        "statement",
        "plain ms",
        "1 dependant ms",
        "ratio",
        "10 dependants ms",
        "ratio of 10",
    ]
    return {"title": "Writers", "columns": columns, "rows": rows}


def _windows_table(samples: dict[str, list[float]]) -> Results:
    rows = [[name, statistics.median(found)] for name, found in samples.items()]
    return {"title": "Readers of a window", "columns": ["window query", "ms"], "rows": rows}


@contextlib.contextmanager
def database(dsn: str | None) -> Iterator[str]:
    """Make a database of our own, on the given server or on an embedded one."""
    with contextlib.ExitStack() as stack:
        if dsn is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            directory.chmod(0o711)
            dsn = stack.enter_context(start_embedded(directory / "home")).dsn
        name = f"capture_overhead_{uuid.uuid4().hex[:8]}"
        server = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(dsn, dbname=name)
        finally:
            server.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


if __name__ == "__main__":
    sys.exit(main())
