"""``drop_inbox``: an inbox goes, with its stream tables and its messages."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.binding.dependents import list_dependent_objects
from pgtrickle.catalog.dependencies import list_dependents
from pgtrickle.catalog.inboxes.config import Inbox, delete_inbox, get_inbox, list_parts
from pgtrickle.errors import DependentsExistError, InboxMissingError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.runtime import Runtime, translated_errors

_IS_THERE = """
    SELECT EXISTS (SELECT FROM pg_catalog.pg_class AS c
                    WHERE c.oid = %(relid)s::pg_catalog.oid AND c.relkind = 'r')
"""
_OWN_CONSTRAINTS = """
    SELECT i.type || ' ' || i.identity
      FROM pg_catalog.pg_constraint AS c,
           pg_catalog.pg_identify_object(
               'pg_catalog.pg_constraint'::pg_catalog.regclass::oid, c.oid, 0) AS i
     WHERE c.conrelid = ANY (%(relids)s::oid[])
"""
_RELID = "SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid::pg_catalog.int8"


def drop_inbox(runtime: Runtime, name: QualifiedName, *, if_exists: bool = False) -> list[str]:
    """Drop an inbox; return what went.  Refused while other stream tables read it."""
    try:
        with runtime.connection() as connection:
            inbox = get_inbox(connection, name)
            parts = list_parts(connection, inbox)
            _check_unread(connection, inbox, parts)
    except InboxMissingError:
        if if_exists:
            return []
        raise
    gone: list[str] = []
    for one in parts.values():
        gone += drop_stream_table(runtime, one, cascade=False)
    with translated_errors(), runtime.connection() as connection, connection.transaction():
        delete_inbox(connection, inbox)
        [[there]] = connection.execute(_IS_THERE, {"relid": inbox.relid}).fetchall()
        if there:
            connection.execute(trusted(f"DROP TABLE {inbox.table.sql}"))
            gone.append(str(inbox.table))
    return gone


def _check_unread(connection: Connection, inbox: Inbox, parts: dict[str, QualifiedName]) -> None:
    """Raise ST207 before anything is dropped, if others read the inbox or its stream tables."""
    own = set(parts.values())
    relids = [inbox.relid]
    for one in own:
        [[relid]] = connection.execute(_RELID, [one.sql]).fetchall()
        relids += [] if relid is None else [relid]
    readers = {
        str(one.name)
        for relid in relids
        for one in list_dependents(connection, relid)
        if one.name not in own
    }
    own_constraints = connection.execute(_OWN_CONSTRAINTS, {"relids": relids}).fetchall()
    readers |= set(list_dependent_objects(connection, relids)) - {one for (one,) in own_constraints}
    if readers:
        raise DependentsExistError(
            f'others depend on the inbox "{inbox.table}"',
            detail="\n".join(sorted(readers)),
            hint="Drop them first.",
        )
