"""Event triggers that notice a change of a source at once, where the catalog is a superuser's.

Without them nothing is lost: each refresh compares its sources anyway.  What they call runs in the
session of whoever changes anything, superusers among them; so only a superuser may own it.
"""

from __future__ import annotations

import logging

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow

logger = logging.getLogger(__name__)

# With everything that could be put in its place: the function, and the schema it is in.
LIST_UNSAFE = """
    SELECT e.evtname::pg_catalog.text, pg_catalog.pg_get_userbyid(f.proowner)::pg_catalog.text
      FROM pg_catalog.pg_event_trigger AS e
      JOIN pg_catalog.pg_proc AS f ON f.oid = e.evtfoid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace
     WHERE (e.evtname IN ('pgtrickle_watch', 'pgtrickle_watch_drop') OR n.nspname = 'pgtrickle')
       AND EXISTS (SELECT FROM pg_catalog.pg_roles AS r
                    WHERE r.oid IN (f.proowner, n.nspowner) AND NOT r.rolsuper)
     ORDER BY e.evtname
"""
_FIND = """
    SELECT pg_catalog.count(*) FROM pg_catalog.pg_event_trigger AS e
     WHERE e.evtname IN ('pgtrickle_watch', 'pgtrickle_watch_drop')
    HAVING pg_catalog.count(*) = 2
"""
_MAY = """
    SELECT r.rolsuper,
           NOT EXISTS (SELECT FROM pg_catalog.pg_proc AS f
                         JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace
                         JOIN pg_catalog.pg_roles AS o ON o.oid IN (f.proowner, n.nspowner)
                        WHERE n.nspname = 'pgtrickle' AND NOT o.rolsuper)
      FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user
"""
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
_TRY_LOCK = """
    SELECT FROM pgtrickle.pgt_locks WHERE purpose = 'watch' FOR UPDATE SKIP LOCKED
"""
_DROP = sql.SQL("DROP EVENT TRIGGER IF EXISTS {}")
_NAMES = ("pgtrickle_watch", "pgtrickle_watch_drop")


def install_watch(connection: Connection[TupleRow]) -> bool:
    """Create the event triggers unless they are there or being made; tell whether they are."""
    [(superuser, safe)] = connection.execute(_MAY).fetchall()
    if connection.execute(_FIND).fetchone() is not None:
        return True
    if not (superuser and safe):
        return False
    try:
        with connection.transaction():
            locked = connection.execute(_TRY_LOCK).fetchone() is not None
            if locked:
                _drop(connection, _NAMES)
                for statement in _CREATE:
                    connection.execute(statement)
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UniqueViolation):
        return False
    return locked


def list_unsafe_watch(connection: Connection[TupleRow]) -> list[tuple[str, str]]:
    """Return the event triggers that call what another than a superuser can replace, and who."""
    return [(name, role) for name, role in connection.execute(LIST_UNSAFE)]


def drop_unsafe_watch(connection: Connection[TupleRow]) -> None:
    """Drop the event triggers that call what another than a superuser can replace.

    Commands about event triggers fire none.
    """
    for name, role in list_unsafe_watch(connection):
        _drop(connection, (name,))
        logger.warning(
            "dropped an event trigger that ran what a role without superuser's rights can replace",
            extra={"event_trigger": name, "role": role},
        )


def _drop(connection: Connection[TupleRow], names: tuple[str, ...]) -> None:
    for name in names:
        connection.execute(_DROP.format(sql.Identifier(name)))
