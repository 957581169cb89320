"""The table of the catalog that holds the deletes of one lake table which are in no file."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.lake.catalog import LakeCatalog

_SHARED_WITH = """
    SELECT DISTINCT a.privilege_type, CASE a.grantee WHEN 0 THEN 'PUBLIC'
               ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(a.grantee)) END
      FROM pg_catalog.pg_class AS c
     CROSS JOIN LATERAL pg_catalog.aclexplode(
               COALESCE(c.relacl, pg_catalog.acldefault('r', c.relowner))) AS a
     WHERE c.oid = pg_catalog.to_regclass(%s)
"""


def ensure_inlined_deletes(connection: Connection, catalog: LakeCatalog, table_id: int) -> str:
    """Return the table as SQL; a new one is open to everyone to whom the catalog is.

    DuckDB reads it with every scan, so a client that may read the rest must be able to read it.
    """
    table = catalog.table(f"inlined_delete_{table_id}")
    [(there,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)", [table]).fetchall()
    if there is None:
        connection.execute(
            f"CREATE TABLE {table} (file_id bigint, row_id bigint, begin_snapshot bigint)".encode()
        )
        for privilege, role in connection.execute(
            _SHARED_WITH, [catalog.table("snapshot")]
        ).fetchall():
            connection.execute(f"GRANT {privilege} ON {table} TO {role}".encode())
    return table


def forget_inlined_deletes(connection: Connection, catalog: LakeCatalog) -> None:
    """Forget the deletes of files that are no more, in all tables of the lake."""
    tables = connection.execute(
        f"SELECT DISTINCT table_id FROM {catalog.table('table')}".encode()
    ).fetchall()
    for (table_id,) in tables:
        table = catalog.table(f"inlined_delete_{table_id}")
        [(there,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)", [table]).fetchall()
        if there is not None:
            connection.execute(
                f"DELETE FROM {table} AS i WHERE NOT EXISTS ("
                f" SELECT FROM {catalog.table('data_file')} AS f"
                f" WHERE f.data_file_id = i.file_id)".encode()
            )
