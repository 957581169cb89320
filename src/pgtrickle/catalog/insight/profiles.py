"""Queries over ``pgt_profiles``: the figures of rehearsed refreshes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.model.insight.rehearsal import Profile, Rehearsal
from pgtrickle.model.text.names import QualifiedName

_INSERT = """
    INSERT INTO pgtrickle.pgt_profiles (pgt_id, taken_at, action, reason, total_ms, figures)
    SELECT s.pgt_id, %(taken_at)s, %(action)s, %(reason)s, %(total_ms)s, %(figures)s
      FROM pgtrickle.pgt_stream_tables AS s
     WHERE (s.pgt_schema, s.pgt_name) = (%(schema)s, %(name)s)
"""
_PRUNE = """
    DELETE FROM pgtrickle.pgt_profiles AS p
     USING pgtrickle.pgt_stream_tables AS s
     WHERE s.pgt_id = p.pgt_id AND (s.pgt_schema, s.pgt_name) = (%(schema)s, %(name)s)
       AND p.profile_id <= (SELECT o.profile_id FROM pgtrickle.pgt_profiles AS o
                             WHERE o.pgt_id = s.pgt_id
                             ORDER BY o.profile_id DESC LIMIT 1 OFFSET %(kept)s)
"""


def keep_profile(
    connection: Connection[TupleRow],
    name: QualifiedName,
    rehearsal: Rehearsal,
    figures: Mapping[str, Any],
    kept: int,
) -> None:
    """Keep the figures of a rehearsal, and forget those before the last ones."""
    named = {"schema": name.schema, "name": name.name}
    values = {
        "taken_at": rehearsal.taken_at,
        "action": rehearsal.action,
        "reason": rehearsal.reason,
        "total_ms": rehearsal.total_ms,
        "figures": json.dumps(figures, ensure_ascii=True),
    }
    with connection.transaction():
        connection.execute(_INSERT, named | values)
        connection.execute(_PRUNE, named | {"kept": kept})


_LIST = """
    SELECT profile_id, stream_table, taken_at, action, reason, total_ms, figures
      FROM pgtrickle.list_profiles(%s, '{}')
"""


def list_profiles(connection: Connection[TupleRow], name: QualifiedName) -> list[Profile]:
    """Return the kept figures of a stream table, the newest first."""
    return [
        Profile(profile_id, str(QualifiedName.parse(named, "")), *facts)
        for profile_id, named, *facts in connection.execute(_LIST, [name.sql])
    ]
