"""Fill an empty stream table without its index: building that over all rows is much quicker.

DROP INDEX would make readers wait until the commit.  DROP INDEX CONCURRENTLY does not, and is a
transaction of its own; if others are using the table, it would wait for them, so the index stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from psycopg import Connection

from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.apply import ensure_row_index

MANY_ROWS = 100_000  # from which on it is worth it

# A vacuum, which follows when all rows were deleted, gives way.
_FIND_UNUSED = """
    SELECT i.indexrelid::pg_catalog.regclass::pg_catalog.text
      FROM pg_catalog.pg_index AS i
     WHERE i.indrelid = pg_catalog.to_regclass(%(name)s)
       AND pg_catalog.pg_get_indexdef(i.indexrelid) LIKE '%%hash_record_extended(%%'
       AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_locks AS l
             JOIN pg_catalog.pg_database AS d ON d.oid = l.database
            WHERE d.datname = pg_catalog.current_database() AND l.relation = i.indrelid
              AND l.mode <> 'ShareUpdateExclusiveLock'
              AND l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid())
"""


@contextmanager
def unindexed_if_empty(
    connection: Connection, name: QualifiedName, columns: Sequence[Column]
) -> Iterator[None]:
    """Run a block that fills a stream table; if it is empty, without the index that finds a row.

    The block builds the index; if it fails, that is built here.  If the process dies, the next
    restore or refresh in full builds it; until then rows are found without it.
    """
    dropped = _drop_unused(connection, name)
    try:
        yield
    finally:
        if dropped and not connection.closed:
            ensure_row_index(connection, name, columns)


def _drop_unused(connection: Connection, name: QualifiedName) -> bool:
    [(filled,)] = connection.execute(
        trusted(f"SELECT EXISTS (SELECT FROM ONLY {name.sql})")
    ).fetchall()
    if filled:
        return False
    found = connection.execute(_FIND_UNUSED, {"name": name.sql}).fetchall()
    for (index,) in found:
        connection.execute(trusted(f"DROP INDEX CONCURRENTLY {index}"))
    return bool(found)
