"""When the passing of time next changes a result, if nobody writes.

Between two refreshes without changes the rows stay, and a row moves when the moment with which it
is compared reaches its value. The least value ahead is one lookup in an index; the time at which
the moment gets there is found by bisection, in steps of a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from psycopg import Connection

from pgtrickle.algebra.nodes import Scan
from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.cut import StagedQuery
from pgtrickle.delta.moving_scan import is_moving, next_values
from pgtrickle.model.frontier import NEVER, FrontierTime
from pgtrickle.model.text.trusted import trusted
from pgtrickle.sql.text.current_time import Moments, fill_times, time_literal

# In these local time never steps back.
_STEADY = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu"})
# Of microseconds: 2 ** 53 is the last whole number that an interval is multiplied by exactly, 285
# years; for what is further away, the time is looked for again then.
_EXPONENTS = 53


def find_next_change(
    connection: Connection, staged: StagedQuery, time: FrontierTime
) -> datetime | None:
    """Return the first time after which a row has moved; None if that cannot be told."""
    scans = {
        (scan.source, scan.predicate, scan.outputs): scan
        for stage in staged.stages
        for scan in scans_of(stage.body)
        if is_moving(scan)
    }
    found = [NEVER]
    for scan in scans.values():
        queries = _queries(scan, time)
        if queries is None:
            return None
        for query in queries:
            [(due,)] = connection.execute(trusted(query)).fetchall()
            found += [due] if due is not None else []
    return min(found)


def _queries(scan: Scan, time: FrontierTime) -> Iterator[str] | None:
    found = next_values(scan, steady=time.zone in _STEADY)
    return None if found is None else (_query(*one, time.at) for one in found)


def _query(least: str, turned: str, now: datetime) -> str:
    """Write the query that finds the time for one range; NULL if there is no value ahead."""
    start = time_literal(now)
    until = fill_times(turned, Moments(f"({start} + interval '1 microsecond' * after)", start))
    least = fill_times(least, Moments(start, start))
    return (
        f"WITH RECURSIVE next AS MATERIALIZED ({least}),"
        " steps (low, high) AS ("
        " SELECT 0::float8, COALESCE((SELECT min(after) FROM (SELECT 2::float8 ^ e AS after"
        f" FROM pg_catalog.generate_series(0, {_EXPONENTS}) AS e) AS tried"
        f" WHERE {until}), 2::float8 ^ {_EXPONENTS}) FROM next WHERE next.value IS NOT NULL"
        " UNION ALL SELECT CASE WHEN there THEN low ELSE after END,"
        " CASE WHEN there THEN after ELSE high END FROM steps CROSS JOIN next,"
        " LATERAL (SELECT pg_catalog.floor((low + high) / 2) AS after) AS middle,"
        f" LATERAL (SELECT {until} AS there) AS tried"
        " WHERE high - low > 1)"
        f" SELECT min({start} + interval '1 microsecond' * high) FROM steps WHERE high - low <= 1"
    )
