"""Fingerprints of sources: whether the columns a stream table reads are still what they were."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

# NOT NULL and defaults are left out on purpose: they do not change what a stored row means.
_LIST_COLUMNS = """
    SELECT c.oid, a.attnum, a.attname,
           tn.nspname, t.typname, a.atttypmod, cn.nspname, co.collname
      FROM pg_catalog.unnest(%(relids)s::pg_catalog.oid[]) AS wanted (relid)
      JOIN pg_catalog.pg_class AS c ON c.oid = wanted.relid
      LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
      LEFT JOIN pg_catalog.pg_namespace AS tn ON tn.oid = t.typnamespace
      LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = a.attcollation
      LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = co.collnamespace
     ORDER BY c.oid, a.attnum
"""


def list_fingerprints(
    connection: Connection[TupleRow], sources: Mapping[int, Sequence[str]]
) -> dict[int, str]:
    """Return a hash over the given columns of each source, by one query.

    Found by relid, so a renamed table keeps its fingerprint.  A source that does not exist is
    absent from the answer; a column that does not exist makes the hash differ.
    """
    shapes: dict[int, list[list[object]]] = {}
    cursor = connection.execute(_LIST_COLUMNS, {"relids": list(sources)})
    for relid, number, name, *type_ in cursor:
        shape = shapes.setdefault(relid, [])
        if name in sources[relid]:
            shape.append([number, name, *type_])
    return {relid: _hash(shape) for relid, shape in shapes.items()}


def _hash(shape: list[list[object]]) -> str:
    # Written as PostgreSQL writes jsonb: the function pgtrickle.find_idle hashes the same text.
    return hashlib.sha256(json.dumps(shape, ensure_ascii=False).encode()).hexdigest()


_LIST_VIEWS = """
    SELECT r.ev_class, r.ev_action::text
      FROM pg_catalog.pg_rewrite AS r
     WHERE r.ev_class = ANY(%(relids)s::pg_catalog.oid[]) AND r.rulename = '_RETURN'
"""


def list_view_fingerprints(
    connection: Connection[TupleRow], relids: Sequence[int]
) -> dict[int, str]:
    """Return a hash over the definition of each view; one that does not exist is absent."""
    if not relids:
        return {}
    return {
        relid: hashlib.sha256(rule.encode()).hexdigest()
        for relid, rule in connection.execute(_LIST_VIEWS, {"relids": list(relids)})
    }


_LIST_FILES = """
    SELECT c.oid, c.relfilenode
      FROM pg_catalog.pg_class AS c WHERE c.oid = ANY(%(relids)s::pg_catalog.oid[])
"""


def list_files(connection: Connection[TupleRow], relids: Sequence[int]) -> dict[str, int]:
    """Return the file that stores each source; another one means that every row was rewritten.

    ALTER TABLE may change values while it rewrites (``USING``), and no trigger fires for that.
    """
    return {
        str(relid): file
        for relid, file in connection.execute(_LIST_FILES, {"relids": list(relids)})
    }
