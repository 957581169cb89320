"""Checks of the server and of one database, for which no catalog is needed."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import Connection

from pgtrickle.catalog.settings_table import list_unknown_parameters
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.service.insight.checkup.check import Check
from pgtrickle.session import Session
from pgtrickle.settings import find_unknown_variables

_OLDEST_SERVER = 150000


def check_database(connection: Session, search_path: str) -> list[Check]:
    """Check the requirements of a database without a catalog."""
    return [
        check_server_version(connection),
        check_standby(connection),
        _privileges(connection),
        _schema(connection, search_path),
        check_encoding(connection),
        check_names(connection),
    ]


def check_server_version(connection: Connection) -> Check:
    """Check the version of the server."""
    version = connection.info.server_version
    return Check(
        "postgresql",
        ok=version >= _OLDEST_SERVER,
        detail=f"server version {version // 10000}.{version % 10000}",
        hint="" if version >= _OLDEST_SERVER else "Use PostgreSQL 15 or later.",
    )


IS_STANDBY = "SELECT pg_catalog.pg_is_in_recovery()"


def check_standby(connection: Connection) -> Check:
    """Check that the server can be written to."""
    [(standby,)] = connection.execute(IS_STANDBY).fetchall()
    return Check(
        "writable",
        ok=not standby,
        detail="a standby" if standby else "a primary",
        hint="Connect to the primary." if standby else "",
    )


_ASK_PRIVILEGES = """
    SELECT current_user, pg_catalog.current_database(),
           pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
           pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY'),
           (SELECT count(*) = 3 FROM pg_catalog.pg_namespace AS n
             WHERE n.nspname IN ('pgtrickle', 'pgtrickle_changes', 'pgtrickle_state'))
"""


def _privileges(connection: Connection) -> Check:
    """Check the privileges on the database; existing schemas need not be created."""
    [(role, database, create, temporary, there)] = connection.execute(_ASK_PRIVILEGES).fetchall()
    lacking = [word for word, held in (("CREATE", create), ("TEMPORARY", temporary)) if not held]
    fine = not lacking or (there and temporary)
    lacks = f" lacks {', '.join(lacking)}" if lacking else ""
    unneeded = ", which it needs no more: its schemas are there" if lacking and fine else ""
    return Check(
        "privileges",
        ok=fine,
        detail=f'role "{role}"{lacks}{unneeded}',
        hint=""
        if fine
        else f"Let the owner of the database run: GRANT {', '.join(lacking)} ON DATABASE"
        f" {quote_identifier(database)} TO {quote_identifier(role)};",
    )


_ASK_SCHEMA = """
    SELECT current_user, pg_catalog.current_schema()::pg_catalog.text,
           pg_catalog.has_schema_privilege(pg_catalog.current_schema(), 'CREATE'),
           EXISTS (SELECT FROM pg_catalog.pg_namespace AS n
                    WHERE pg_catalog.has_schema_privilege(n.oid, 'CREATE')
                      AND n.nspname !~ '^(pg_|information_schema$|pgtrickle)')
"""


def _schema(connection: Session, search_path: str) -> Check:
    """Check the schema of stream tables that are created without a schema name."""
    with connection.transaction(force_rollback=True):
        connection.execute(_SET_PATH, [search_path])
        [(role, schema, create, elsewhere)] = connection.execute(_ASK_SCHEMA).fetchall()
    name = "schema of stream tables"
    if create:
        return Check(name, ok=True, detail=f'"{schema}"')
    who = quote_identifier(role)
    if schema is None:
        place, hint = "none is on the search path", f"Run: CREATE SCHEMA AUTHORIZATION {who};"
    else:
        target = quote_identifier(schema)
        place = f'"{role}" lacks CREATE on "{schema}"'
        hint = f"Let its owner run: GRANT USAGE, CREATE ON SCHEMA {target} TO {who};"
    if elsewhere:
        place = f"{place}; name stream tables with the schema that they go to"
    return Check(name, ok=elsewhere, detail=place, hint=hint)


_SET_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
_LIST_CLOSED_SOURCES = """
    SELECT DISTINCT current_user, d.source_schema, d.source_name,
           NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
           NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pg_catalog.pg_class AS c ON c.oid = d.source_relid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE NOT pg_catalog.has_schema_privilege(n.oid, 'USAGE')
        OR NOT pg_catalog.has_any_column_privilege(c.oid, 'SELECT')
     ORDER BY 2, 3
"""


def check_sources(connection: Connection) -> Check:
    """Check the privileges on the sources."""
    closed = connection.execute(_LIST_CLOSED_SOURCES).fetchall()
    if not closed:
        return Check("sources", ok=True, detail="all may be read")
    grants = {
        grant: None
        for role, schema, table, usage, select in closed
        for grant in _grants(role, QualifiedName(schema, table), usage=usage, select=select)
    }
    named = ", ".join(f"{schema}.{table}" for _, schema, table, *_ in closed)
    return Check(
        "sources",
        ok=False,
        detail=f'"{closed[0][0]}" may not read {named}',
        hint=f"Let their owners run: {' '.join(grants)}",
    )


def _grants(role: str, table: QualifiedName, *, usage: bool, select: bool) -> Iterator[str]:
    if usage:
        yield f"GRANT USAGE ON SCHEMA {quote_identifier(table.schema)} TO {quote_identifier(role)};"
    if select:
        yield f"GRANT SELECT ON {table.sql} TO {quote_identifier(role)};"


def check_names(connection: Connection) -> Check:
    """Look for misspelled settings."""
    unknown = [*find_unknown_variables(), *list_unknown_parameters(connection)]
    return Check(
        "names of settings",
        ok=not unknown,
        detail="; ".join(map(str, unknown)) or "all known",
        hint="Correct or remove it; list the settings with: pgtrickle config." if unknown else "",
    )


def check_encoding(connection: Connection) -> Check:
    """Check the encoding of the database."""
    [(encoding,)] = connection.execute("SHOW server_encoding").fetchall()
    return Check(
        "encoding",
        ok=encoding == "UTF8",
        detail=f"server encoding {encoding}",
        hint="" if encoding == "UTF8" else "Use a database with the encoding UTF8.",
    )
