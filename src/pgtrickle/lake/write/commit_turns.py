"""Turns at the catalog: pgtrickle's commits go one after another, and leave room for others.

A DuckDB client takes no lock.  It reads the head, inserts the next snapshot a few milliseconds
later, and fails if another writer committed in between.  Then it retries: ten times by
default, after growing pauses.  Beside writers without pauses, every attempt
fails, and the client gives up.  So if other clients write too,

* the catalog is left alone after each commit, for many times as long as it was held, and
* a client that read the head before our turn may insert first, if that does not take long.

Both waits are bounded, and come before the lock that blocks others.  If no other client has
written for a while, there are no waits.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.trust import LOOKS_STRANGE, catalog_tables, refuse_strange
from pgtrickle.model.text.names import quote_literal
from pgtrickle.model.text.trusted import trusted

AUTHOR = "pgtrickle"  # of our snapshots; all others are foreign

_COMPANY_SECONDS = 10.0  # longer than all pauses between DuckDB's ten attempts
_REST_RATIO = 6.0  # so an attempt at a random moment meets one of ours one time in seven
_LEAST_REST = 0.01
_LONGEST_REST = 0.06
_PATIENCE = 0.05  # DuckDB takes 5 ms from the head to its insert with a core to itself
_GLANCE = 0.001

# It conflicts with itself and with the lock below, and with no client that reads or inserts.
_TURN = "LOCK TABLE {snapshot} IN SHARE UPDATE EXCLUSIVE MODE"
# From then on no role can create a trigger on any of the tables, and existing ones are visible.
_LOCK = f"""
    LOCK TABLE {{snapshot}} IN SHARE ROW EXCLUSIVE MODE;
    LOCK TABLE {{tables}} IN ROW EXCLUSIVE MODE;
    {LOOKS_STRANGE}
"""
_HEAD = """
    SELECT s.snapshot_id, s.schema_version, s.next_catalog_id, s.next_file_id,
           s.snapshot_id > 0 AND c.author IS DISTINCT FROM %s
           AND s.snapshot_time > pg_catalog.clock_timestamp() - %s * INTERVAL '1 s'
      FROM {snapshot} AS s LEFT JOIN {changes} AS c USING (snapshot_id)
     ORDER BY s.snapshot_id DESC LIMIT 1
"""
_LIST_LOCKS = """
    SELECT l.virtualtransaction, l.pid = pg_catalog.pg_backend_pid(), l.mode
      FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_database AS d ON d.oid = l.database
     WHERE l.locktype = 'relation' AND l.relation = %s::pg_catalog.regclass AND l.granted
       AND d.datname = pg_catalog.current_database()
"""
# Others wait for the answer, so the query does the minimum: other databases do no harm.
_IS_AWAITED = """
    SELECT EXISTS (SELECT FROM pg_catalog.pg_locks AS l
                    WHERE NOT l.granted AND l.mode = 'RowExclusiveLock'
                      AND l.relation = %s::pg_catalog.regclass)
"""


class Head(NamedTuple):
    """The newest snapshot of a catalog."""

    snapshot_id: int
    schema_version: int
    next_catalog_id: int
    next_file_id: int


@dataclass(slots=True)
class _Known:
    """The process's knowledge of a catalog, by its clock; the holder of the turn writes it."""

    company_at: float = -math.inf  # when other clients were last seen writing
    taken_at: float = 0.0  # our last turn
    finished_at: float = 0.0
    slow: frozenset[str] = frozenset()  # transactions for which waiting was in vain


_known: dict[LakeCatalog, _Known] = {}


def take_turn(connection: Connection, catalog: LakeCatalog) -> Head:
    """Block other writers of a catalog until the transaction ends, and return its head.

    A transaction may take its turn again, for another commit.
    """
    known = _known.setdefault(catalog, _Known())
    asked = time.monotonic()
    snapshot, changes = catalog.table("snapshot"), catalog.table("snapshot_changes")
    connection.execute(trusted(_TURN.format(snapshot=snapshot)))
    if time.monotonic() < known.company_at + _COMPANY_SECONDS:
        _make_room(connection, catalog, known, asked)
    _lock(connection, catalog)
    statement = _HEAD.format(snapshot=snapshot, changes=changes)
    [(*head, in_company)] = connection.execute(
        trusted(statement), [AUTHOR, _COMPANY_SECONDS]
    ).fetchall()
    known.taken_at = time.monotonic()
    if in_company:
        known.company_at = known.taken_at
    return Head(*head)


def _lock(connection: Connection, catalog: LakeCatalog) -> None:
    """Lock the tables, and check that none of them runs foreign code, before any is read."""
    names = (one.removeprefix("ducklake_") for one in catalog_tables())
    statement = _LOCK.format(
        snapshot=catalog.table("snapshot"),
        tables=", ".join(map(catalog.table, names)),
        schema=quote_literal(catalog.schema),
    )
    answers = connection.execute(trusted(statement))  # one round trip: others wait
    while answers.nextset():
        pass
    if answers.fetchall() != [(False,)]:
        refuse_strange(connection, catalog.schema)


def end_turn(connection: Connection, catalog: LakeCatalog) -> None:
    """Record which writers wait for the turn to end; the caller commits soon."""
    known = _known.setdefault(catalog, _Known())
    [(awaited,)] = connection.execute(_IS_AWAITED, [catalog.table("snapshot")]).fetchall()
    known.finished_at = time.monotonic()
    if awaited:
        known.company_at = known.finished_at


def _make_room(connection: Connection, catalog: LakeCatalog, known: _Known, asked: float) -> None:
    """Leave the catalog alone for a while, and let clients insert that have read its head."""
    if _open_transactions(connection, catalog) is None:
        return
    # A writer that waited for the turn got it when its predecessor committed.
    ended = time.monotonic() if asked < known.finished_at else known.finished_at
    time.sleep(max(ended + _rest(ended - known.taken_at) - time.monotonic(), 0))
    found = _open_transactions(connection, catalog) or frozenset()
    known.slow &= found
    awaited = found - known.slow
    until = time.monotonic() + _PATIENCE
    while awaited and time.monotonic() < until:
        time.sleep(_GLANCE)
        awaited &= _open_transactions(connection, catalog) or frozenset()
    known.slow |= awaited  # readers, as it seems


def _rest(held: float) -> float:
    """Return the pause in seconds after the catalog was held for a time.

    >>> [_rest(seconds) for seconds in (0.0, 0.005, 30.0)]
    [0.01, 0.03, 0.06]
    """
    return min(max(_REST_RATIO * held, _LEAST_REST), _LONGEST_REST)


def _open_transactions(connection: Connection, catalog: LakeCatalog) -> frozenset[str] | None:
    """Return the foreign transactions that have read the head; None if the lock is ours."""
    locks = connection.execute(_LIST_LOCKS, [catalog.table("snapshot")]).fetchall()
    if any(ours and mode == "ShareRowExclusiveLock" for _, ours, mode in locks):
        return None
    return frozenset(transaction for transaction, ours, _ in locks if not ours)
