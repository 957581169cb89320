"""The sessions that block a lock, as far as an ordinary role can see them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class Blocker:
    """A session that blocks another one; None for values that our role may not see."""

    pid: int  # 0: a prepared transaction
    role: str | None  # None also for the server's own processes
    application: str | None
    state: str | None
    since: datetime | None  # when its transaction began
    mode: str | None = None
    relation: str | None = None

    @property
    def is_vacuum(self) -> bool:
        """Whether it looks like autovacuum, which yields after a second."""
        return self.role is None and self.mode == "ShareUpdateExclusiveLock"

    def __str__(self) -> str:
        """Describe it in one line.

        >>> str(Blocker(7, "joe", "psql", "idle in transaction", None, "ShareLock", "orders"))
        'the process 7 of the role "joe" (psql, idle in transaction) holds ShareLock on orders'
        >>> str(Blocker(0, None, None, None, None))
        'a prepared transaction (see pg_prepared_xacts)'
        """
        if not self.pid:
            return "a prepared transaction (see pg_prepared_xacts)"
        since = "" if self.since is None else f"since {self.since:%Y-%m-%d %H:%M:%S %Z}"
        known = ", ".join(filter(None, [self.application, self.state, since]))
        who = f"the process {self.pid}" + (f' of the role "{self.role}"' if self.role else "")
        what = f" holds {self.mode} on {self.relation}" if self.mode and self.relation else ""
        return who + (f" ({known})" if known else "") + what


# Names come from other users and reach terminals: unprintable characters are left out.
_WHO = r"""
           a.usename::pg_catalog.text,
           pg_catalog.regexp_replace(a.application_name, '[^[:print:]]', '', 'g'),
           a.state, a.xact_start
"""
_FIND_BLOCKERS = f"""
    SELECT DISTINCT b.pid, {_WHO}, h.mode, h.relation::pg_catalog.regclass::pg_catalog.text
      FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(%(pid)s)) AS b (pid)
      LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = b.pid
      LEFT JOIN pg_catalog.pg_locks AS w ON w.pid = %(pid)s AND NOT w.granted
      LEFT JOIN pg_catalog.pg_locks AS h
             ON h.pid = b.pid AND h.granted AND h.relation = w.relation
            AND h.database = w.database
     ORDER BY b.pid
     LIMIT 10
"""


def find_blockers(connection: Connection[TupleRow], pid: int) -> list[Blocker]:
    """Return the sessions that block a waiting session at this moment."""
    return [Blocker(*row) for row in connection.execute(trusted(_FIND_BLOCKERS), {"pid": pid})]


_FIND_HOLDERS = f"""
    WITH RECURSIVE wanted (relid) AS (
        SELECT pg_catalog.unnest(%(relids)s::pg_catalog.oid[])
         UNION
        SELECT i.inhrelid FROM wanted
          JOIN pg_catalog.pg_inherits AS i ON i.inhparent = wanted.relid
    )
    SELECT DISTINCT COALESCE(h.pid, 0), {_WHO}, h.mode,
           h.relation::pg_catalog.regclass::pg_catalog.text
      FROM pg_catalog.pg_locks AS h
      JOIN pg_catalog.pg_database AS d ON d.oid = h.database
      LEFT JOIN pg_catalog.pg_stat_activity AS a ON a.pid = h.pid
     WHERE h.locktype = 'relation' AND h.granted AND h.mode = ANY(%(modes)s::pg_catalog.text[])
       AND h.relation IN (SELECT wanted.relid FROM wanted)
       AND d.datname = pg_catalog.current_database() AND h.pid <> pg_catalog.pg_backend_pid()
     ORDER BY 1
     LIMIT 10
"""


def find_holders(
    connection: Connection[TupleRow], relids: Collection[int], modes: Collection[str]
) -> list[Blocker]:
    """Return the holders of locks of these modes on tables, their partitions or child tables."""
    values = {"relids": list(relids), "modes": list(modes)}
    return [Blocker(*row) for row in connection.execute(trusted(_FIND_HOLDERS), values)]
