"""Event triggers that notice a change of a source at once, where the role may have them.

Without them nothing is lost: each refresh compares its sources anyway.
"""

from __future__ import annotations

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

_FIND = """
    SELECT pg_catalog.count(*) FROM pg_catalog.pg_event_trigger AS e
     WHERE e.evtname IN ('pgtrickle_watch', 'pgtrickle_watch_drop')
    HAVING pg_catalog.count(*) = 2
"""
_MAY = "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user"
_CREATE = (
    """
    CREATE EVENT TRIGGER pgtrickle_watch ON ddl_command_end
      WHEN TAG IN ('ALTER TABLE', 'CREATE TABLE', 'CREATE VIEW', 'ALTER VIEW', 'ALTER TYPE',
                   'ALTER DOMAIN', 'CREATE FUNCTION', 'ALTER FUNCTION', 'CREATE POLICY',
                   'ALTER POLICY')
      EXECUTE FUNCTION pgtrickle.watch_ddl()
    """,
    """
    CREATE EVENT TRIGGER pgtrickle_watch_drop ON sql_drop
      EXECUTE FUNCTION pgtrickle.watch_ddl()
    """,
)
_TRY_LOCK = "SELECT pg_catalog.pg_try_advisory_xact_lock(8099291749254689645)"  # ours alone
_DROP = (
    "DROP EVENT TRIGGER IF EXISTS pgtrickle_watch",
    "DROP EVENT TRIGGER IF EXISTS pgtrickle_watch_drop",
)


def install_watch(connection: Connection[TupleRow]) -> bool:
    """Create the event triggers unless they are there or being made; tell whether they are."""
    if connection.execute(_FIND).fetchone() is not None:
        return True
    row = connection.execute(_MAY).fetchone()
    if row is None or not row[0]:
        return False
    try:
        with connection.transaction():
            [(locked,)] = connection.execute(_TRY_LOCK).fetchall()
            for statement in (*_DROP, *_CREATE) if locked else ():
                connection.execute(statement)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UniqueViolation):
        return False
    return bool(locked)
