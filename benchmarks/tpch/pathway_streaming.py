"""Pathway, a streaming engine in memory, maintaining the queries that were written for it.

It gets the rows that changed, once PostgreSQL has found them, and its time is from the first row
fed to the answer that holds them all: how the changes reach it is not part of that, and its answer
stays in the process.  So this is how quick an engine is that keeps all of its input in memory.

Pathway need not be installed beside pgtrickle: ``PATHWAY_PYTHON`` names an interpreter with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from benchmarks.tpch.contenders import Timed
from pgtrickle.errors import InternalError

_WORKER = Path(__file__).with_name("pathway_worker.py")
_LINE_KEY = "l_orderkey || '-' || l_linenumber"
_LINES = f"""
    SELECT 'lineitem' AS kind, {_LINE_KEY} AS key, l_orderkey::bigint AS i0,
           (l_extendedprice * 100)::bigint AS i1, (l_discount * 100)::bigint AS i2,
           (l_shipdate - date '2000-01-01')::bigint AS i3, 0::bigint AS i4, '' AS s0, '' AS s1
      FROM lineitem
"""
# What each query reads, as the worker takes it: whole numbers and texts.
_INPUTS = {
    "q01": f"""
        SELECT 'lineitem' AS kind, {_LINE_KEY} AS key, (l_quantity * 100)::bigint AS i0,
               (l_extendedprice * 100)::bigint AS i1, (l_discount * 100)::bigint AS i2,
               (l_tax * 100)::bigint AS i3, (l_shipdate - date '2000-01-01')::bigint AS i4,
               l_returnflag::text AS s0, l_linestatus::text AS s1
          FROM lineitem
    """,
    "q03": f"""{_LINES} UNION ALL
        SELECT 'orders', o_orderkey::text, o_orderkey, o_custkey,
               o_orderdate - date '2000-01-01', o_shippriority, 0, '', '' FROM orders
        UNION ALL
        SELECT 'customer', c_custkey::text, c_custkey, 0, 0, 0, 0, c_mktsegment::text, ''
          FROM customer
    """,
    "q06": _LINES.replace("l_orderkey::bigint AS i0", "(l_quantity * 100)::bigint AS i0"),
}
# The same answers by PostgreSQL, from the same numbers; the LIMIT of Q3 is left out.
_ANSWERS = {
    "q01": """
        SELECT s0, s1, sum(i0)::bigint, sum(i1)::bigint, sum(i1 * (100 - i2))::bigint,
               sum(i1 * (100 - i2) * (100 + i3))::bigint, sum(i2)::bigint, count(*)
          FROM pathway_q01 WHERE i4 <= -486 GROUP BY s0, s1
    """,
    "q03": """
        SELECT l.i0, o.i2, o.i3, sum(l.i1 * (100 - l.i2))::bigint
          FROM pathway_q03 AS c
          JOIN pathway_q03 AS o ON o.kind = 'orders' AND o.i1 = c.i0 AND o.i2 < -1753
          JOIN pathway_q03 AS l ON l.kind = 'lineitem' AND l.i0 = o.i0 AND l.i3 > -1753
         WHERE c.kind = 'customer' AND c.s0 = 'BUILDING'
         GROUP BY l.i0, o.i2, o.i3
    """,
    "q06": """
        SELECT sum(i1 * i2)::bigint FROM pathway_q06
         WHERE i3 >= -2191 AND i3 < -1826 AND i2 BETWEEN 5 AND 7 AND i0 < 2400
    """,
}
_CHANGES = """
    COPY (SELECT 'delete', fed.* FROM pathway_{query} AS fed
           WHERE NOT EXISTS (SELECT FROM pathway_now AS now
                              WHERE now.kind = fed.kind AND now.key = fed.key)
          UNION ALL
          SELECT 'upsert', * FROM (TABLE pathway_now EXCEPT TABLE pathway_{query}) AS changed)
    TO STDOUT (FORMAT csv)
"""


class Pathway:
    """The queries maintained by Pathway, each in a process of its own."""

    name = "pathway"

    def __init__(self, connection: Connection[TupleRow], directory: Path) -> None:
        self._connection = connection
        self._directory = directory
        self._python = os.environ.get("PATHWAY_PYTHON", sys.executable)
        self._workers: dict[str, subprocess.Popen[str]] = {}

    def why_not(self) -> str | None:
        """Return why it cannot take part, None if it can."""
        found = subprocess.run(  # noqa: S603 - the interpreter that the user names
            [self._python, "-c", "import pathway"], capture_output=True, text=True, check=False
        )
        if found.returncode == 0:
            return None
        return f"{found.stderr.strip().splitlines()[-1]}; PATHWAY_PYTHON names an interpreter"

    def prepare(self, query: str, sql: str) -> Timed | None:  # noqa: ARG002 - the protocol's
        """Start a process for the query and feed it all rows; None if nobody wrote the query."""
        if query not in _INPUTS:
            return None
        environment = os.environ | {"PATHWAY_THREADS": str(os.cpu_count())}
        self._workers[query] = subprocess.Popen(  # noqa: S603 - the interpreter that the user names
            [self._python, _WORKER, query],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._connection.execute(f"DROP TABLE IF EXISTS pathway_{query}".encode())
        nothing = f"CREATE TABLE pathway_{query} AS {_INPUTS[query]} LIMIT 0"
        self._connection.execute(nothing.encode())
        return self._feed(query)

    def refresh(self, query: str, sql: str) -> Timed:  # noqa: ARG002 - the protocol's
        """Feed what changed; the answer must be PostgreSQL's."""
        took = self._feed(query)
        answer = self._ask(query, {"answer": True})["rows"]
        expected = self._connection.execute(_ANSWERS[query].encode()).fetchall()
        if sorted(tuple(row) for row in answer) != sorted(expected):
            raise InternalError("Pathway's answer differs from PostgreSQL's")
        return took

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers.values():
            worker.kill()
            worker.communicate()

    def _feed(self, query: str) -> Timed:
        path = self._directory / f"pathway_{query}.csv"
        with self._connection.transaction():
            self._connection.execute(f"CREATE TABLE pathway_now AS {_INPUTS[query]}".encode())
            copy = _CHANGES.format(query=query).encode()
            with path.open("wb") as file, self._connection.cursor().copy(copy) as blocks:
                for block in blocks:
                    file.write(block)
            self._connection.execute(f"DROP TABLE pathway_{query}".encode())
            self._connection.execute(f"ALTER TABLE pathway_now RENAME TO pathway_{query}".encode())
        return Timed(self._ask(query, {"changes": str(path)})["ms"])

    def _ask(self, query: str, command: dict[str, Any]) -> dict[str, Any]:
        worker = self._workers[query]
        if worker.stdin is None or worker.stdout is None:
            raise InternalError("a worker is spoken to through pipes")
        worker.stdin.write(json.dumps(command) + "\n")
        worker.stdin.flush()
        answer: dict[str, Any] = json.loads(worker.stdout.readline())
        return answer
