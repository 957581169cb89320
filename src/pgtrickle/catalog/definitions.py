"""Queries over definitions: what the functions of ``sql_api/89_definitions.sql`` say and write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import Connection, sql
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from pgtrickle.model.definitions.dump import Described
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

_DATABASE = """
    SELECT pgtrickle.describe_database(), pg_catalog.current_database()::pg_catalog.text,
           pg_catalog.current_setting('server_version_num')::pg_catalog.int4
"""


def describe_database(connection: Connection[TupleRow]) -> tuple[dict[str, Any], str, int]:
    """Return every definition, the name of the database, and the version of its server."""
    [(described, database, version)] = connection.execute(_DATABASE).fetchall()
    return described, database, version


_SCRIPT = "SELECT place, name, script FROM pgtrickle.write_dump()"


def write_dump(connection: Connection[TupleRow]) -> list[tuple[int, str | None, str]]:
    """Return the parts of the script that makes everything again, with the names of definitions."""
    return connection.execute(_SCRIPT).fetchall()


_EXPORT = "SELECT pgtrickle.export_definition(%s, '{}')"


def export_definition(connection: Connection[TupleRow], name: QualifiedName) -> str:
    """Return the script that makes one stream table again."""
    [(text,)] = connection.execute(_EXPORT, [name.sql]).fetchall()
    return str(text)


# Recent renames may not be recorded yet: the relation counts.
_FIND = """
    SELECT CASE c.relkind WHEN 'v' THEN pgtrickle.describe_view(c.oid)
                          ELSE (SELECT pgtrickle.describe_definition(s.pgt_id)
                                  FROM pgtrickle.pgt_stream_tables AS s
                                 WHERE s.pgt_relid = c.oid) END
      FROM pg_catalog.pg_class AS c
     WHERE c.oid = pg_catalog.to_regclass(%s)
"""


def find_definition(connection: Connection[TupleRow], name: QualifiedName) -> Described | None:
    """Describe the stream table or the view of this name; None if there is neither."""
    row = connection.execute(_FIND, [name.sql]).fetchone()
    return None if row is None else row[0]


def list_settings(connection: Connection[TupleRow]) -> dict[str, str]:
    """Return the settings that were made for this database."""
    query = "SELECT s.name, s.value FROM pgtrickle.pgt_settings AS s WHERE s.value IS NOT NULL"
    return dict(connection.execute(query).fetchall())


def list_access(connection: Connection[TupleRow]) -> dict[str, str]:
    """Return the level of each role that has one."""
    return dict(connection.execute("SELECT role, level FROM pgtrickle.list_access()").fetchall())


def describe_scheduling(connection: Connection[TupleRow]) -> Described:
    """Return gates, watermarks and groups."""
    [(found,)] = connection.execute("SELECT pgtrickle.describe_scheduling()").fetchall()
    return dict(found)


_OBSTACLES = """
    WITH given AS (
        SELECT %(roles)s::pg_catalog.text[] AS roles,
               %(subscribers)s::pg_catalog.text[] AS subscribers,
               %(schemas)s::pg_catalog.text[] AS schemas, %(sources)s::pg_catalog.text[] AS sources,
               %(names)s::pg_catalog.text[] AS names
    )
    SELECT pg_catalog.format('the role %%I does not exist', r.name)
      FROM given, pg_catalog.unnest(roles) AS r (name)
     WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS p WHERE p.rolname = r.name)
     UNION ALL
    SELECT pg_catalog.format('this role is no member of %%I, which has subscriptions', p.rolname)
      FROM given, pg_catalog.unnest(subscribers) AS r (name)
      JOIN pg_catalog.pg_roles AS p ON p.rolname = r.name
     WHERE NOT pg_catalog.pg_has_role(p.oid, 'MEMBER')
     UNION ALL
    SELECT CASE WHEN n.oid IS NULL THEN pg_catalog.format('the schema %%I does not exist', s.name)
                ELSE pg_catalog.format('this role may not create in the schema %%I', s.name) END
      FROM given, pg_catalog.unnest(schemas) AS s (name)
      LEFT JOIN pg_catalog.pg_namespace AS n ON n.nspname = s.name
     WHERE n.oid IS NULL OR NOT pg_catalog.has_schema_privilege(n.oid, 'CREATE')
     UNION ALL
    SELECT CASE WHEN c.oid IS NULL THEN pg_catalog.format('the source %%s does not exist', s.name)
                ELSE pg_catalog.format('this role may not read the source %%s', s.name) END
      FROM given, pg_catalog.unnest(sources) AS s (name)
      LEFT JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(s.name)
     WHERE c.oid IS NULL OR NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
     UNION ALL
    SELECT pg_catalog.format('%%s is another relation', t.name)
      FROM given, pg_catalog.unnest(names) AS t (name)
      JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(t.name)
     WHERE c.relkind <> 'v'
       AND NOT EXISTS (SELECT FROM pgtrickle.pgt_stream_tables AS s WHERE s.pgt_relid = c.oid)
"""
_UNDEFINED = {
    "function": "SELECT pg_catalog.to_regprocedure(%s) IS NULL",
    "operator": "SELECT pg_catalog.to_regoperator(%s) IS NULL",
    "type": "SELECT pg_catalog.to_regtype(%s) IS NULL",
    "collation": "SELECT pg_catalog.to_regcollation(%s) IS NULL",
}


def list_missing(
    connection: Connection[TupleRow],
    *,
    roles: Iterable[str],
    subscribers: Iterable[str],
    schemas: Iterable[str],
    sources: Iterable[str],
    names: Iterable[str],
) -> list[str]:
    """Return in words what is not there, of what definitions need, or may not be used."""
    values = {
        "roles": sorted(set(roles)),
        "subscribers": sorted(set(subscribers)),
        "schemas": sorted(set(schemas)),
        "sources": sorted(set(sources)),
        "names": sorted(set(names)),
    }
    return [text for (text,) in connection.execute(_OBSTACLES, values)]


def is_undefined(connection: Connection[TupleRow], kind: str, name: str) -> bool:
    """Return whether a function, an operator, a type or a collation is not there."""
    if kind not in _UNDEFINED:
        return False
    [(undefined,)] = connection.execute(_UNDEFINED[kind], [name]).fetchall()
    return bool(undefined)


_WRITE_TABLE = "SELECT statement FROM pgtrickle.write_table(%s, %s, %s)"
_WRITE_REMOVAL = "SELECT pgtrickle.write_removal(%s, %s)"


def alter_table(
    connection: Connection[TupleRow],
    name: QualifiedName,
    kind: str,
    table: Described,
    removed: Sequence[Described] = (),
) -> None:
    """Give a table, or a view, what was described; commits nothing.

    Each statement is executed as one, and its beginning is ours: what a file says after it cannot
    be a statement of another kind.
    """
    for one in removed:
        [(drop,)] = connection.execute(_WRITE_REMOVAL, [name.sql, Jsonb(one)]).fetchall()
        _execute_one(connection, drop)
    rows = connection.execute(_WRITE_TABLE, [name.sql, kind, Jsonb(table)]).fetchall()
    for (statement,) in rows:
        _execute_one(connection, statement)


def replace_view(connection: Connection[TupleRow], name: QualifiedName, definition: str) -> None:
    """Create a view, or give it another query; commits nothing."""
    _execute_one(connection, f"CREATE OR REPLACE VIEW {name.sql} {definition}")


_REHEARSED = "pgtrickle_rehearsed_view"


def print_view(connection: Connection[TupleRow], definition: str) -> str | None:
    """Return the definition of a view as this server prints it; None if it cannot be made now.

    Versions print the same query in different ways.
    """
    described: Described | None = None
    with suppress(psycopg.Error), connection.transaction(force_rollback=True):
        _execute_one(connection, f"CREATE TEMPORARY VIEW {_REHEARSED} {definition}")
        name = QualifiedName("pg_temp", _REHEARSED)
        described = find_definition(connection, name)
    return None if described is None else str(described["definition"])


def _execute_one(connection: Connection[TupleRow], statement: str) -> None:
    # Binary results: only the extended protocol has them, and it refuses a second statement.
    connection.execute(trusted(statement), binary=True)


def subscribe_as(
    connection: Connection[TupleRow], name: QualifiedName, channel: str, role: str
) -> None:
    """Subscribe a channel for a role of which the current one is a member; commits."""
    with connection.transaction():
        connection.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(role)))
        connection.execute("SELECT pgtrickle.subscribe(%s, %s, '{}')", [name.sql, channel])
