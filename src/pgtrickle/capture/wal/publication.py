"""The publication that tells pgoutput which tables to decode."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName

_EXISTS = "SELECT FROM pg_catalog.pg_publication WHERE pubname = %(name)s"
_CREATE = sql.SQL("CREATE PUBLICATION {name} WITH (publish = 'insert, update, delete, truncate')")


def create_publication(connection: Connection[TupleRow], name: str) -> None:
    """Create the publication without tables, unless it exists.

    It must be committed before the slot is created: decoding reads the catalog of that time.
    """
    if connection.execute(_EXISTS, {"name": name}).fetchone() is None:
        connection.execute(_CREATE.format(name=sql.Identifier(name)))


_DROP = sql.SQL("DROP PUBLICATION IF EXISTS {name}")


def drop_publication(connection: Connection[TupleRow], name: str) -> None:
    """Drop the publication."""
    connection.execute(_DROP.format(name=sql.Identifier(name)))


_ADD = sql.SQL("ALTER PUBLICATION {name} ADD TABLE ONLY {table}")
_REMOVE = sql.SQL("ALTER PUBLICATION {name} DROP TABLE ONLY {table}")
# A table that is filtered or published in part counts as not published.
_LIST_MEMBERS = """
    SELECT r.prrelid::pg_catalog.int8, r.oid::pg_catalog.int8
      FROM pg_catalog.pg_publication AS p
      JOIN pg_catalog.pg_publication_rel AS r ON r.prpubid = p.oid
     WHERE p.pubname = %(name)s
       AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate
       AND r.prqual IS NULL AND r.prattrs IS NULL
       AND r.prrelid = ANY(%(relids)s::pg_catalog.oid[])
"""


def list_members(
    connection: Connection[TupleRow], name: str, relids: Sequence[int]
) -> dict[int, int]:
    """Return the tables that are published completely, each with the oid of its membership."""
    values = {"name": name, "relids": list(relids)}
    return dict(connection.execute(_LIST_MEMBERS, values).fetchall())


_FIND_MEMBER = """
    SELECT FROM pg_catalog.pg_publication AS p
      JOIN pg_catalog.pg_publication_rel AS r ON r.prpubid = p.oid
     WHERE p.pubname = %(name)s AND r.prrelid = %(relid)s
"""


def publish(connection: Connection[TupleRow], name: str, relid: int, table: QualifiedName) -> int:
    """Add a table to the publication and return the oid of its membership."""
    unpublish(connection, name, relid, table)
    texts = {"name": sql.Identifier(name), "table": sql.Identifier(table.schema, table.name)}
    connection.execute(_ADD.format(**texts))
    return list_members(connection, name, [relid])[relid]


def unpublish(
    connection: Connection[TupleRow], name: str, relid: int, table: QualifiedName
) -> None:
    """Remove a table from the publication, if it is there."""
    if connection.execute(_FIND_MEMBER, {"name": name, "relid": relid}).fetchone() is not None:
        texts = {"name": sql.Identifier(name), "table": sql.Identifier(table.schema, table.name)}
        connection.execute(_REMOVE.format(**texts))
