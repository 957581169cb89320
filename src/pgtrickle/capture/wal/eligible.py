"""Whether a source can be captured from the write-ahead log, and why not."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

# All reasons with one query, in the order in which an administrator would remove them.
_LIST_OBSTACLES = """
    SELECT obstacle.reason
      FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL (VALUES
        (1, pg_catalog.current_setting('wal_level') <> 'logical',
            'wal_level is ' || pg_catalog.current_setting('wal_level') || ', not logical'),
        (2, NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r
                         WHERE r.rolname = current_user AND (r.rolsuper OR r.rolreplication)),
            'the role lacks the attribute REPLICATION'),
        (3, pg_catalog.current_setting('server_encoding') <> 'UTF8',
            'the encoding of the database is not UTF8'),
        (4, c.relkind <> 'r' OR c.relispartition
            OR EXISTS (SELECT FROM pg_catalog.pg_inherits AS i
                        WHERE c.oid IN (i.inhrelid, i.inhparent)),
            'it is not an ordinary table, or part of a tree of tables'),
        (5, c.relpersistence <> 'p', 'its changes are not logged'),
        (6, NOT pg_catalog.pg_has_role(c.relowner, 'USAGE'), 'the role does not own it'),
        (7, EXISTS (SELECT FROM pg_catalog.pg_attribute AS a
                     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                       AND a.attgenerated <> '' AND a.attname = ANY(%(columns)s)),
            'a stream table reads a generated column of it'),
        (8, NOT %(may_alter)s AND c.relreplident <> 'f', 'its replica identity is not FULL')
      ) AS obstacle (number, stands, reason)
     WHERE c.oid = %(relid)s AND obstacle.stands
     ORDER BY obstacle.number
"""


def list_obstacles(
    connection: Connection[TupleRow], relid: int, columns: Sequence[str], *, may_alter: bool
) -> list[str]:
    """Return the reasons why a source's changes cannot be read from the log.

    ``columns`` are the captured ones; without ``may_alter`` the table must already have
    the replica identity FULL.
    """
    values = {"relid": relid, "columns": list(columns), "may_alter": may_alter}
    return [reason for (reason,) in connection.execute(_LIST_OBSTACLES, values)]
