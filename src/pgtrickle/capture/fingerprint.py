"""Fingerprints of sources: whether the properties that a stream table relies on have changed.

The database makes a fingerprint (``pgtrickle.describe_source``) of parts that each have a
name and a hash, so that a difference can be described.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.capture.buffers import buffer_of, settled_of

_LIST = """
    SELECT s.key::pg_catalog.int8,
           pgtrickle.describe_source(
               s.key::pg_catalog.oid,
               ARRAY(SELECT pg_catalog.jsonb_array_elements_text(s.value)))
      FROM pg_catalog.jsonb_each(%(sources)s) AS s
"""


def list_fingerprints(
    connection: Connection[TupleRow], sources: Mapping[int, Sequence[str]]
) -> dict[int, str]:
    """Return the fingerprint of each source for its used columns, with one query.

    Sources are found by relid, so a renamed table keeps its fingerprint.  A source that does not
    exist is absent from the answer; a column that does not exist makes the fingerprint differ.
    """
    asked = Jsonb({str(relid): list(columns) for relid, columns in sources.items()})
    return {
        relid: fingerprint
        for relid, fingerprint in connection.execute(_LIST, {"sources": asked})
        if fingerprint is not None
    }


_PARTS = {
    "columns": "columns of {} changed",
    "types": "the definition of a type in {} changed",
    "policies": "row security of {} changed",
    "partitions": "{} has other partitions or child tables",
    "parent": "{} was attached or detached",
    "unlogged": "{} or a part of it became unlogged, or logged again",
    "replication": "replication into {} began or ended",
    "definition": "the view {} was replaced",
}


def explain_difference(source: str, before: str, now: str) -> str:
    """Describe the parts in which two fingerprints differ.

    >>> explain_difference("public.t", "columns=1 types=2", "columns=1 types=3")
    'the definition of a type in public.t changed'
    >>> explain_difference("public.t", "columns=1", "columns=2 policies=true")
    'columns of public.t changed; row security of public.t changed'
    """
    parts, others = _parts(before), _parts(now)
    changed = [text for part, text in _PARTS.items() if parts.get(part) != others.get(part)]
    return "; ".join(text.format(source) for text in changed)


def _parts(fingerprint: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in fingerprint.split(" ") if "=" in part)


_LIST_FILES = """
    SELECT c.oid::pg_catalog.text,
           CASE WHEN c.relhassubclass THEN pgtrickle.describe_files(c.oid)
                ELSE c.relfilenode::pg_catalog.text END
      FROM pg_catalog.pg_class AS c WHERE c.oid = ANY(%(relids)s::pg_catalog.oid[])
"""


def list_files(connection: Connection[TupleRow], relids: Sequence[int]) -> dict[str, str]:
    """Return the file of each source; a difference means that its rows were rewritten.

    ALTER TABLE may change values while it rewrites (``USING``), and no trigger fires for that.
    """
    return dict(connection.execute(_LIST_FILES, {"relids": list(relids)}).fetchall())


_LIST_ALL_FILES = """
    SELECT object, file
      FROM pgtrickle.list_files(%(relids)s::pg_catalog.oid[], %(named)s::pg_catalog.oid[],
                                %(buffers)s::pg_catalog.name[])
"""


def list_all_files(
    connection: Connection[TupleRow], relids: Sequence[int], target: int
) -> dict[str, str]:
    """Return the files of each source and its buffer, and the names of these and of ``target``.

    TRUNCATE and ALTER TABLE replace files and names regardless of snapshots: to an older snapshot,
    the relation looks empty, or is another one.  So a read under a snapshot counts only if the
    files and names that it sees still exist after the last read; the same holds for writes.
    """
    buffers = [name for relid in relids for name in (buffer_of(relid).name, settled_of(relid).name)]
    values = {"relids": list(relids), "buffers": buffers, "named": [*relids, target]}
    return dict(connection.execute(_LIST_ALL_FILES, values).fetchall())
