"""Who holds locks on tables of the catalog that a migration would have to wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.upgrades.lock_modes import conflict
from pgtrickle.model.upgrades.plan import Blocker

# An ordinary role sees who holds a lock, and not how long its transaction has been open.
_LIST_HOLDERS = """
    SELECT l.relation, l.pid, a.usename, a.application_name,
           pg_catalog.format('%I.%I', n.nspname, c.relname), l.mode,
           EXTRACT(epoch FROM pg_catalog.clock_timestamp() - a.xact_start)::pg_catalog.float8
      FROM pg_catalog.pg_locks AS l
      JOIN pg_catalog.pg_database AS d ON d.oid = l.database
      JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
     WHERE l.locktype = 'relation' AND l.granted
       AND d.datname = pg_catalog.current_database()
       AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
       AND n.nspname IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state')
       AND c.relkind IN ('r', 'p', 'v')
     ORDER BY a.xact_start, l.pid, 5, l.mode
     LIMIT 1000
"""
_SHOWN = 5


def list_blockers(
    connection: Connection[TupleRow], wanted: Mapping[int, str] | None = None
) -> tuple[Blocker, ...]:
    """Return the transactions whose locks conflict with the wanted ones, the oldest first.

    ``wanted`` maps tables, by oid, to lock modes; without it, any lock on the catalog counts.
    """
    return tuple(
        Blocker(*facts)
        for relation, *facts in connection.execute(_LIST_HOLDERS).fetchall()
        if wanted is None or (relation in wanted and conflict(wanted[relation], facts[-2]))
    )


def describe_blockers(blockers: Sequence[Blocker]) -> str:
    """Return a few blockers in one line.

    >>> describe_blockers([Blocker(7, "ann", "psql", "pgt_leases", "AccessShareLock", 3.2)])
    'process 7 of "ann" (psql) holds AccessShareLock on pgt_leases since 3 s'
    """
    return "; ".join(dict.fromkeys(map(describe_blocker, blockers[:_SHOWN])))


def describe_blocker(one: Blocker) -> str:
    """Return what is known about a blocker."""
    who = "a prepared transaction" if one.pid is None else f"process {one.pid}"
    role = f' of "{one.role}"' if one.role else ""
    program = f" ({one.application})" if one.application else ""
    since = "" if one.open_seconds is None else f" since {one.open_seconds:.0f} s"
    return f"{who}{role}{program} holds {one.mode} on {one.relation}{since}"
