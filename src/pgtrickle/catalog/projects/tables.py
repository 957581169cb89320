"""What projects of files have made, and what they said when they were applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """One stream table of a project, as it was last applied."""

    project: str
    target: str
    file: str
    applied: Mapping[str, Any]
    tests: Sequence[Mapping[str, Any]]


_LIST = """
    SELECT p.pgt_id, p.project, p.target, p.file, p.applied, p.tests
      FROM pgtrickle.pgt_project_tables AS p
"""


def list_records(connection: Connection[TupleRow]) -> dict[int, ProjectRecord]:
    """Return the records, by the id of the stream table."""
    return {id_: ProjectRecord(*rest) for id_, *rest in connection.execute(_LIST)}


_RECORD = """
    INSERT INTO pgtrickle.pgt_project_tables AS p
           (pgt_id, project, target, file, owner, tags, tests, search_path, applied)
    VALUES (%(id)s, %(project)s, %(target)s, %(file)s, %(owner)s, %(tags)s, %(tests)s,
            %(search_path)s, %(applied)s)
        ON CONFLICT (pgt_id) DO UPDATE
       SET project = excluded.project, target = excluded.target, file = excluded.file,
           owner = excluded.owner, tags = excluded.tags, tests = excluded.tests,
           search_path = excluded.search_path, tested_refresh = NULL,
           applied = excluded.applied, applied_at = pg_catalog.now(), applied_by = current_user
"""


def record_applied(
    connection: Connection[TupleRow],
    stream_table_id: int,
    *,
    project: str,
    target: str,
    file: str,
    owner: str | None,
    tags: Sequence[str],
    tests: Sequence[Mapping[str, Any]],
    search_path: str | None,
    applied: Mapping[str, Any],
) -> None:
    """Record what a project said of a stream table when it was applied."""
    values = {
        "id": stream_table_id,
        "project": project,
        "target": target,
        "file": file,
        "owner": owner,
        "tags": list(tags),
        "tests": Jsonb(list(tests)),
        "search_path": search_path,
        "applied": Jsonb(dict(applied)),
    }
    connection.execute(_RECORD, values)
    connection.execute(_FORGET, {"id": stream_table_id, "tests": [one["name"] for one in tests]})


_FORGET = """
    DELETE FROM pgtrickle.pgt_project_test_results AS r
     WHERE r.pgt_id = %(id)s AND r.test <> ALL (%(tests)s::pg_catalog.text[])
"""


_TAKEN = """
    SELECT g.place
      FROM pg_catalog.unnest(%(names)s::pg_catalog.text[]) WITH ORDINALITY AS g (name, place)
      JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(g.name)
"""


def list_taken(
    connection: Connection[TupleRow], names: Sequence[QualifiedName]
) -> set[QualifiedName]:
    """Return those names that a relation has."""
    rows = connection.execute(_TAKEN, {"names": [one.sql for one in names]})
    return {names[place - 1] for (place,) in rows}


_SCHEMAS = """
    SELECT s.name FROM pg_catalog.unnest(%(names)s::pg_catalog.text[]) AS s (name)
     WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_namespace AS n WHERE n.nspname = s.name)
     ORDER BY 1
"""


def list_missing_schemas(connection: Connection[TupleRow], names: Sequence[str]) -> list[str]:
    """Return the schemas that do not exist."""
    rows = connection.execute(_SCHEMAS, {"names": sorted(set(names))})
    return [name for (name,) in rows]


_RESOLVE = "SELECT pgtrickle.resolve_path(%s, current_user::pg_catalog.text)"


def resolve_path(connection: Connection[TupleRow], search_path: str) -> str:
    """Return the schemas of a search path that exist, as a definition records them."""
    [(found,)] = connection.execute(_RESOLVE, [search_path]).fetchall()
    return str(found)
