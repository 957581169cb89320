"""The rights of the caller of a request, and the meaning of names in it.

The server executes requests with its own rights.  So it asks before whether the caller could do
the same himself: nobody gains a right by asking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import Connection

from pgtrickle.catalog.renamed_tables import find_new_name
from pgtrickle.catalog.stream_tables import find_stream_table, not_found
from pgtrickle.errors import (
    NameNotUsableError,
    NotOwnerError,
    PrivilegeError,
    RequestRefusedError,
    StreamTableNotFoundError,
)
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask

# The caller may have been dropped since: then the answer is no.
_MAY_ACT_AS = """
    SELECT COALESCE(pg_catalog.bool_or(pg_catalog.pg_has_role(c.oid, o.oid, 'USAGE')), false)
      FROM pg_catalog.pg_roles AS c, pg_catalog.pg_roles AS o
     WHERE c.oid = %(caller)s AND o.rolname = COALESCE(%(owner)s, current_user)
"""


def check_caller_exists(ask: Ask) -> None:
    """Raise ST605 if the role that asked was dropped; another of its name is somebody else."""
    if ask.request.caller is None:
        raise RequestRefusedError(
            "the role that made the request does not exist any more",
            hint="Make it again as a role that exists.",
        )


def check_may_act_as_server(ask: Ask) -> None:
    """Raise ST303 unless the caller may let the server evaluate a query.

    Each function in it runs with the server's rights.
    """
    with ask.runtime.connection() as connection:
        [(server,)] = connection.execute("SELECT current_user").fetchall()
        if not _may_act_as(connection, ask.request.caller_oid, None):
            raise PrivilegeError(
                f'"{ask.request.caller}" may not have queries evaluated as "{server}"',
                detail="Stream tables that the daemon creates belong to its role.",
                hint=f'Ask for: GRANT "{server}" TO "{ask.request.caller}".',
            )


def get_own_stream_table(ask: Ask, text: str) -> StreamTable:
    """Return the stream table that the caller names; raise unless it exists and is the caller's."""
    found = find_stream_table_of(ask, text)
    if found is None:
        raise _not_found(ask, text)
    with ask.runtime.connection() as connection:
        if not _may_act_as(connection, ask.request.caller_oid, found.owner):
            raise NotOwnerError(
                f'must be owner of stream table "{found.name}"',
                hint=f'It belongs to "{found.owner}": connect as a member of that role.',
            )
    return found


def _not_found(ask: Ask, text: str) -> StreamTableNotFoundError:
    hint = "List them with: SELECT * FROM pgtrickle.pgt_status()."
    with ask.runtime.connection() as connection:
        for schema in ask.request.schemas or ("",):
            name = QualifiedName.parse(text, schema)
            if find_new_name(connection, name) is not None:
                return not_found(connection, name, hint)
    return StreamTableNotFoundError(f'the stream table "{text}" does not exist', hint=hint)


def find_stream_table_of(ask: Ask, text: str) -> StreamTable | None:
    """Return the stream table of this name, the first on the caller's search path."""
    with ask.runtime.connection() as connection:
        for schema in ask.request.schemas or ("",):
            name = QualifiedName.parse(text, schema)
            if (found := find_stream_table(connection, name)) is not None:
                return found
    return None


def name_for_creation(ask: Ask, text: str) -> QualifiedName:
    """Return the name of a stream table to be, in the first schema of the caller's path."""
    if not ask.request.schemas:
        name = QualifiedName.parse(text, "")
        if not name.schema:
            raise NameNotUsableError(
                "no schema has been selected to create in",
                hint="Write schema.name, or set the search_path.",
            )
        return name
    return QualifiedName.parse(text, ask.request.schemas[0])


def _may_act_as(connection: Connection, caller: int, owner: str | None) -> bool:
    values = {"caller": caller, "owner": owner}
    [(may,)] = connection.execute(_MAY_ACT_AS, values).fetchall()
    return bool(may)
