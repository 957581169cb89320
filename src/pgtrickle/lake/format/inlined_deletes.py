"""The catalog table of the deletes of one lake table that are not in files."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.model.text.trusted import trusted

_SHARED_WITH = """
    SELECT DISTINCT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC'
               ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END
      FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL pg_catalog.aclexplode(
               COALESCE(c.relacl, pg_catalog.acldefault('r', c.relowner))) AS a
     WHERE c.oid = pg_catalog.to_regclass(%s)
"""


def ensure_inlined_deletes(connection: Connection, catalog: LakeCatalog, table_id: int) -> str:
    """Return the table as SQL; a new one gets the same readers as the catalog.

    DuckDB reads it with every scan, so a client that may read the rest must be able to read it.
    """
    table = catalog.table(f"inlined_delete_{table_id}")
    [(there,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)", [table]).fetchall()
    if there is None:
        connection.execute(
            trusted(f"CREATE TABLE {table} (file_id bigint, row_id bigint, begin_snapshot bigint)")
        )
        for privilege, role in connection.execute(
            _SHARED_WITH, [catalog.table("snapshot")]
        ).fetchall():
            connection.execute(trusted(f"GRANT {privilege} ON {table} TO {role}"))
    return table


def forget_inlined_deletes(connection: Connection, catalog: LakeCatalog) -> None:
    """Remove the deletes of files that no longer exist, in all tables of the lake."""
    tables = connection.execute(
        trusted(f"SELECT DISTINCT table_id FROM {catalog.table('table')}")
    ).fetchall()
    for (table_id,) in tables:
        table = catalog.table(f"inlined_delete_{table_id}")
        [(there,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)", [table]).fetchall()
        if there is not None:
            connection.execute(
                trusted(
                    f"DELETE FROM {table} AS i WHERE NOT EXISTS ("
                    f" SELECT FROM {catalog.table('data_file')} AS f"
                    f" WHERE f.data_file_id = i.file_id)"
                )
            )
