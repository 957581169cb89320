"""Queries over ``pgt_refresh_groups``: stream tables that the user wants refreshed together."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.refresh_group import DEFAULT_ISOLATION, Isolation
from pgtrickle.model.text.names import QualifiedName

_ISOLATIONS = tuple(one.value for one in Isolation)

# One that was dropped since is no longer a member.
_LIST = """
    SELECT pg_catalog.array_agg(s.pgt_relid ORDER BY s.pgt_id)
      FROM pgtrickle.pgt_refresh_groups AS g
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_relid = ANY(g.member_oids)
     WHERE g.isolation = 'repeatable_read'
     GROUP BY g.group_id
"""


def list_refresh_groups(connection: Connection[TupleRow]) -> list[tuple[int, ...]]:
    """Return the relids of those that are refreshed at one moment, group by group."""
    return [tuple(members) for (members,) in connection.execute(_LIST)]


_LIST_MEMBERS = """
    SELECT s.pgt_schema, s.pgt_name
      FROM pgtrickle.pgt_refresh_groups AS g
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_relid = ANY(g.member_oids)
     WHERE g.group_name = %(name)s
     ORDER BY s.pgt_id
"""


def list_members(connection: Connection[TupleRow], name: str) -> list[QualifiedName]:
    """Return the members of one group, whatever its isolation; nothing if there is none."""
    rows = connection.execute(_LIST_MEMBERS, {"name": name})
    return [QualifiedName(schema, table) for schema, table in rows]


_LOCK = "LOCK TABLE pgtrickle.pgt_refresh_groups IN SHARE ROW EXCLUSIVE MODE"
_FIND_TAKEN = """
    SELECT g.group_name FROM pgtrickle.pgt_refresh_groups AS g
     WHERE g.member_oids && %(relids)s::pg_catalog.oid[]
     LIMIT 1
"""
_INSERT = """
    INSERT INTO pgtrickle.pgt_refresh_groups (group_name, member_oids, isolation)
    VALUES (%(name)s, %(relids)s::pg_catalog.oid[], %(isolation)s)
"""
_DELETE = "DELETE FROM pgtrickle.pgt_refresh_groups WHERE group_name = %(name)s"


def create_refresh_group(
    connection: Connection[TupleRow],
    name: str,
    relids: Sequence[int],
    isolation: str = DEFAULT_ISOLATION.value,
) -> None:
    """Record a group; each stream table belongs to at most one."""
    if len(set(relids)) < 2 or isolation not in _ISOLATIONS:
        raise SettingError(
            f'the refresh group "{name}" needs two members and an isolation',
            hint=f"Name two stream tables, and one of {', '.join(_ISOLATIONS)}.",
        )
    values = {"name": name, "relids": list(dict.fromkeys(relids)), "isolation": isolation}
    try:
        with connection.transaction():
            # Two at once could each find a member free.
            connection.execute(_LOCK)
            taken = connection.execute(_FIND_TAKEN, values).fetchone()
            if taken is not None:
                raise SettingError(
                    f'a member already belongs to the refresh group "{taken[0]}"',
                    hint="Drop that group first.",
                )
            connection.execute(_INSERT, values)
    except psycopg.errors.UniqueViolation as error:
        raise SettingError(
            f'the refresh group "{name}" already exists', hint="Drop it first."
        ) from error


def drop_refresh_group(connection: Connection[TupleRow], name: str) -> None:
    """Forget a group."""
    if connection.execute(_DELETE, {"name": name}).rowcount == 0:
        raise SettingError(f'the refresh group "{name}" does not exist')
