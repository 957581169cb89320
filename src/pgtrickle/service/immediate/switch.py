"""Change how a stream table is maintained: to IMMEDIATE, or from it, without a gap."""

from __future__ import annotations

import random

from psycopg import Connection

from pgtrickle.capture.fingerprint import list_files
from pgtrickle.capture.windows import get_frontier
from pgtrickle.catalog.stream_tables import (
    move_frontier,
    update_needs_reinit,
    update_plan,
)
from pgtrickle.immediate.install import drop_immediate
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.capturing.sources import capture_sources, release_sources
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.entry import find_copy

_FIND_READY = "SELECT ready FROM pgtrickle.pgt_immediate WHERE pgt_id = %(id)s"


def enter_immediate(runtime: Runtime, stream_table: StreamTable) -> None:
    """Let writers maintain a stream table whose mode is on record as IMMEDIATE.

    The refresh creates the triggers and computes the contents anew; they stay as they are until
    then.  Buffers that nobody else reads go after that.
    """
    refresh_when_free(runtime, stream_table.name)
    with runtime.connection() as connection:
        until_free(runtime, connection, lambda: release_sources(connection))


# What takes a lock on a source by its owner's rights, or by those that the owner has granted.
_LIST_LOCKABLE = """
    SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname)
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = ANY (%(relids)s::pg_catalog.oid[]) AND c.relkind IN ('r', 'p')
       AND pg_catalog.has_table_privilege(c.oid, 'UPDATE')
       AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
"""


def _lock_sources(connection: Connection, compiled: Compiled) -> None:
    """Take the strongest lock that is needed first: a writer would wait for a weaker one.

    Then each would wait for the other, and the server would choose who fails.  Whoever holds one
    lock waits for the next one only until shortly before the server looks for that.  Any source
    comes first at times, because only there an autovacuum is waited for until it gives way.
    """
    relids = {"relids": list(compiled.captured_columns())}
    names = [name for (name,) in connection.execute(_LIST_LOCKABLE, relids).fetchall()]
    random.shuffle(names)
    for name in names:
        connection.execute(trusted(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE"))
        connection.execute("SET LOCAL lock_timeout = '100ms'")


def leave_immediate(connection: Connection, stream_table: StreamTable, compiled: Compiled) -> None:
    """Capture the sources for refreshes, and end the triggers that followed them.

    Installing the capture locks the sources, so contents that writers kept up to date are those of
    the snapshot that is taken then: it becomes the frontier.
    """
    _lock_sources(connection, compiled)
    capture_sources(connection, stream_table.id, compiled)
    copy = find_copy(connection, stream_table)
    if copy is not None:
        copy.load_anew(connection)  # it lacks what writers wrote
    row = connection.execute(_FIND_READY, {"id": stream_table.id}).fetchone()
    drop_immediate(connection, stream_table.id)
    if row is not None and row[0] and stream_table.frontier is not None:
        move_frontier(connection, stream_table.id, get_frontier(connection))
        files = list_files(connection, list(compiled.captured_columns()))
        update_plan(connection, stream_table.id, {"files": files, "rows": {}})
    else:
        update_needs_reinit(connection, stream_table.id, needs_reinit=True)
