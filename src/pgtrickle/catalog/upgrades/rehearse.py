"""Rehearse a migration: run it in a transaction that is rolled back, and note what it took.

What is reported was measured on this database, and not guessed.  The price is that the rehearsal
holds the same locks for as long as the migration would.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.migrate import (
    FILES,
    Recorded,
    bring_up_to_date,
    check_server,
    list_api_files,
    read_recorded,
    when_free,
)
from pgtrickle.catalog.scheduling.leader import find_leader
from pgtrickle.catalog.upgrades.blockers import list_blockers
from pgtrickle.errors import ServerBusyError
from pgtrickle.model.upgrades.lock_modes import strongest
from pgtrickle.model.upgrades.plan import MigrationPlan, MigrationStep, TakenLock, read_header

_PATIENCE_SECONDS = 5.0

# Weaker locks hold up neither readers nor writers.
_LIST_OWN_LOCKS = """
    SELECT l.relation, pg_catalog.array_agg(l.mode) FROM pg_catalog.pg_locks AS l
      JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
     WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.granted
       AND l.relation >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
       AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
     GROUP BY l.relation
"""


@dataclass(slots=True)
class _Notes:
    """What the steps of one attempt took."""

    connection: Connection[TupleRow]
    began: float = field(default_factory=time.monotonic)
    took_ms: dict[str, float] = field(default_factory=dict)
    locks: dict[int, dict[str, str]] = field(default_factory=dict)  # by table: modes by steps

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        before = time.monotonic()
        yield
        self.took_ms[name] = _milliseconds(before)
        for relation, modes in self.connection.execute(_LIST_OWN_LOCKS).fetchall():
            held, mode = self.locks.setdefault(relation, {}), strongest(modes)
            if mode not in held.values():
                held[name] = mode


def _milliseconds(since: float) -> float:
    return (time.monotonic() - since) * 1000


def rehearse(connection: Connection[TupleRow]) -> MigrationPlan:
    """Return what ``migrate`` would do to a catalog, and change nothing.

    Raise what ``migrate`` would raise, but for locks that cannot be had: who holds them is a part
    of the answer.
    """
    check_server(connection)
    recorded = read_recorded(connection)
    version = max(recorded.versions, default=0)
    newest = max([version, *(one.version for one in recorded.list_pending())])
    if recorded.find_gap() is None:
        return MigrationPlan(version, newest, rehearsed=True)
    asked = time.monotonic()
    notes: list[_Notes] = []

    def attempt() -> float:
        notes.append(_Notes(connection))
        bring_up_to_date(connection, notes[-1].step)
        return _milliseconds(notes[-1].began)

    try:
        took_ms = when_free(connection, attempt, patience=_PATIENCE_SECONDS, keep=False)
    except ServerBusyError:
        return MigrationPlan(
            version,
            newest,
            rehearsed=False,
            steps=_list_steps(recorded, {}),
            blockers=list_blockers(connection),
            waited_ms=_milliseconds(asked),
            daemon=find_leader(connection),
            refreshes=_list_refreshes(connection),
        )
    last = notes[-1]
    wanted = {relation: strongest(list(by.values())) for relation, by in last.locks.items()}
    return MigrationPlan(
        version,
        newest,
        rehearsed=True,
        steps=_list_steps(recorded, last.took_ms),
        locks=_describe_locks(connection, last.locks),
        blockers=list_blockers(connection, wanted),
        waited_ms=(last.began - asked) * 1000,
        took_ms=took_ms,
        daemon=find_leader(connection),
        refreshes=_list_refreshes(connection),
    )


def _list_steps(recorded: Recorded, took_ms: dict[str, float]) -> tuple[MigrationStep, ...]:
    """Describe the steps, with the time of those that were tried."""
    steps = []
    for one in recorded.list_pending():
        said = read_header(one.sql)
        steps.append(
            MigrationStep(
                one.name, said["Why"], said["Reads"], said["Locks"], took_ms.get(one.name)
            )
        )
    stale, number = ", ".join(recorded.list_stale_files()), len(list_api_files())
    files = MigrationStep(
        FILES,
        f"{stale or 'none'} of {number} files differ; all of them are applied again.",
        "Nothing is stored in them.",
        "Views, and tables that have policies or triggers, for a moment.",
        took_ms.get(FILES),
    )
    return (*steps, files)


# What the rehearsal itself created is gone by now.
_LIST_SIZES = """
    SELECT c.oid, pg_catalog.format('%%I.%%I', n.nspname, c.relname),
           pg_catalog.pg_total_relation_size(c.oid)
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = ANY (%(relations)s::pg_catalog.oid[])
     ORDER BY 2
"""


def _describe_locks(
    connection: Connection[TupleRow], locks: dict[int, dict[str, str]]
) -> tuple[TakenLock, ...]:
    rows = connection.execute(_LIST_SIZES, {"relations": list(locks)}).fetchall()
    return tuple(
        TakenLock(name, mode, step, size)
        for relation, name, size in rows
        for step, mode in locks[relation].items()
    )


_LIST_REFRESHES = """
    SELECT pg_catalog.format('%I.%I', s.pgt_schema, s.pgt_name)
      FROM pgtrickle.pgt_leases AS l
      JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE l.expires_at > pg_catalog.clock_timestamp()
     ORDER BY 1
"""


def _list_refreshes(connection: Connection[TupleRow]) -> tuple[str, ...]:
    return tuple(str(name) for (name,) in connection.execute(_LIST_REFRESHES))
