"""The roles that may change a stream table: its owner, members of the owner, and superusers."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.errors import NotOwnerError
from pgtrickle.model.stream_table import StreamTable

_MAY_ACT = """
    SELECT COALESCE(pg_catalog.pg_has_role(current_user, r.oid, 'USAGE'), false)
      FROM pg_catalog.pg_roles AS r WHERE r.rolname = %(owner)s
"""


def check_owner(connection: Connection, stream_table: StreamTable) -> None:
    """Raise ST206 unless the current role may act as the owner."""
    row = connection.execute(_MAY_ACT, {"owner": stream_table.owner}).fetchone()
    if row is None or not row[0]:
        raise NotOwnerError(
            f'must be owner of stream table "{stream_table.name}"',
            hint=f'Connect as "{stream_table.owner}" or as a member of that role.',
        )
