"""The PostgreSQL schema of a lake's catalog: create it, and move a catalog to another one.

The owner of a schema can drop and replace the tables of other roles in it.  So a new
catalog is created only in a schema whose owner could do harm anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.errors import LakeCatalogError, PrivilegeError
from pgtrickle.lake.format.trust import is_catalog_table
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted

_LIST_SCHEMAS = """
    SELECT n.nspname
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.relname = 'ducklake_metadata' AND c.relkind = 'r'
       AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
       AND NOT pg_catalog.pg_is_other_temp_schema(n.oid)
     ORDER BY 1
"""


def list_catalog_schemas(connection: Connection) -> list[str]:
    """Return the schemas of this database that hold a DuckLake catalog, of any owner."""
    return [name for (name,) in connection.execute(_LIST_SCHEMAS).fetchall()]


def where_else(connection: Connection, how: str) -> str:
    """Say in a hint which other schemas hold a catalog, and ``how`` to name one; empty if none."""
    found = list_catalog_schemas(connection)
    if not found:
        return ""
    named = ", ".join(f'"{schema}"' for schema in found)
    return f"There is one in {named}: {how}."


_FIND_SCHEMA = """
    SELECT owner.rolname,
           owner.rolsuper OR pg_catalog.pg_has_role(current_user, owner.oid, 'MEMBER')
           OR owner.rolname = 'pg_database_owner' OR owner.oid = d.datdba,
           pg_catalog.has_schema_privilege(n.oid, 'USAGE')
           AND pg_catalog.has_schema_privilege(n.oid, 'CREATE'),
           pg_catalog.pg_has_role(current_user, owner.oid, 'USAGE')
      FROM pg_catalog.pg_namespace AS n
      JOIN pg_catalog.pg_roles AS owner ON owner.oid = n.nspowner
      JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
     WHERE n.nspname = %s
"""
_MAY_CREATE = """
    SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
           current_user, pg_catalog.current_database()
"""


def prepare_schema(connection: Connection, schema: str) -> bool:
    """Make sure that a schema can hold a catalog; return whether we may grant rights on it."""
    row = connection.execute(_FIND_SCHEMA, [schema]).fetchone()
    quoted = quote_identifier(schema)
    [(may_create, role, database)] = connection.execute(_MAY_CREATE).fetchall()
    me, here = quote_identifier(role), quote_identifier(database)
    if row is None:
        if not may_create:
            raise PrivilegeError(
                f"the role {me} may not create the schema {quoted} for the catalog of the lake",
                hint=f"Ask the owner of the database to run: GRANT CREATE ON DATABASE {here} TO"
                f" {me}; or: CREATE SCHEMA {quoted} AUTHORIZATION {me};",
            )
        connection.execute(trusted(f"CREATE SCHEMA {quoted}"))
        return True
    owner, harmless, usable, ours = row
    if not harmless:
        raise LakeCatalogError(
            f'the schema {quoted} belongs to "{owner}", who could replace the catalog of the lake',
            hint=f"Name another with ducklake_catalog_schema, or let the schema be yours:"
            f" ALTER SCHEMA {quoted} OWNER TO {me};",
        )
    if not usable:
        raise PrivilegeError(
            f"the role {me} may not create tables in the schema {quoted}",
            hint=f'Ask "{owner}" to run: GRANT USAGE, CREATE ON SCHEMA {quoted} TO {me};',
        )
    return bool(ours)


@dataclass(frozen=True, slots=True)
class _Table:
    name: str
    owner: str
    ours: bool


_LIST_TABLES = """
    SELECT c.relname, owner.rolname, pg_catalog.pg_has_role(current_user, owner.oid, 'USAGE')
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_roles AS owner ON owner.oid = c.relowner
     WHERE n.nspname = %s AND c.relname >= 'ducklake_' AND c.relname < 'ducklake`'
       AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
     ORDER BY c.relname
"""


def _list_tables(connection: Connection, schema: str) -> list[_Table]:
    found = connection.execute(_LIST_TABLES, [schema]).fetchall()
    return [_Table(*row) for row in found if is_catalog_table(row[0])]


def relocate(connection: Connection, old: str, new: str) -> int:
    """Move the tables of a catalog to another schema, in the caller's transaction.

    Returns their number.  Waits for readers and writers of the lake; from then on there are none
    until the caller commits.
    """
    if _list_tables(connection, new):
        raise LakeCatalogError(
            f'the schema "{new}" holds tables of a DuckLake catalog already',
            hint="Move this one to another schema, or that one first.",
        )
    ours = prepare_schema(connection, new)
    # First, since every writer of a lake reads it: afterwards no table is added.
    _lock(connection, f"{quote_identifier(old)}.ducklake_snapshot")
    tables = _list_tables(connection, old)
    foreign = next((one for one in tables if not one.ours), None)
    if foreign is not None:
        raise LakeCatalogError(
            f'the table "{old}.{foreign.name}" of the lake\'s catalog belongs to "{foreign.owner}"',
            hint="Let that role, or a superuser, give the tables of the catalog to this one:"
            f" ALTER TABLE {quote_identifier(old)}.{quote_identifier(foreign.name)} OWNER TO ...",
        )
    names = [f"{quote_identifier(old)}.{quote_identifier(one.name)}" for one in tables]
    _lock(connection, ", ".join(names))
    if ours:
        _pass_on_rights(connection, old, new)
    for name in names:
        connection.execute(trusted(f"ALTER TABLE {name} SET SCHEMA {quote_identifier(new)}"))
    return len(names)


def _lock(connection: Connection, tables: str) -> None:
    connection.execute(trusted(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"))


# A role with rights on a table of the catalog could use its schema; a role that wrote to the lake
# and could create tables in the schema, as DuckDB does for small inserts, can do so in the new one.
_LIST_RIGHTS = """
    SELECT CASE WHEN a.grantee = 0 THEN 'PUBLIC'
                ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END,
           pg_catalog.bool_or(c.relname = 'ducklake_snapshot' AND a.privilege_type = 'INSERT'
                              AND a.grantee <> 0
                              AND pg_catalog.has_schema_privilege(a.grantee, n.oid, 'CREATE'))
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace,
           pg_catalog.aclexplode(c.relacl) AS a
     WHERE n.nspname = %s AND c.relname >= 'ducklake_' AND c.relname < 'ducklake`'
       AND a.grantee <> c.relowner
     GROUP BY a.grantee
"""


def _pass_on_rights(connection: Connection, old: str, new: str) -> None:
    for grantee, creates in connection.execute(_LIST_RIGHTS, [old]).fetchall():
        rights = "USAGE, CREATE" if creates else "USAGE"
        connection.execute(
            trusted(f"GRANT {rights} ON SCHEMA {quote_identifier(new)} TO {grantee}")
        )
