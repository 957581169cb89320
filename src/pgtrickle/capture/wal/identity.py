"""The replica identity: the part of an old row that the log holds.

Only FULL is enough.  A change carries the weight -1 for the old row with all captured columns, and
under any other identity the log holds only the key.
"""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName

FULL = "f"
_INDEX = "i:"
_GET = """
    SELECT c.relreplident::pg_catalog.text, i.relname
      FROM pg_catalog.pg_class AS c
      LEFT JOIN pg_catalog.pg_index AS x ON x.indrelid = c.oid AND x.indisreplident
      LEFT JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
     WHERE c.oid = %(relid)s
"""
_SET = sql.SQL("ALTER TABLE ONLY {table} REPLICA IDENTITY {identity}")
_WORDS = {"d": sql.SQL("DEFAULT"), "n": sql.SQL("NOTHING"), FULL: sql.SQL("FULL")}


def set_full_identity(
    connection: Connection[TupleRow], relid: int, table: QualifiedName
) -> str | None:
    """Give a table the identity FULL; return its former identity, or None if it was FULL."""
    [(identity, index)] = connection.execute(_GET, {"relid": relid}).fetchall()
    if identity == FULL:
        return None
    _set(connection, table, _WORDS[FULL])
    return f"{_INDEX}{index}" if identity == "i" and index is not None else str(identity)


_FIND_INDEX = """
    SELECT FROM pg_catalog.pg_index AS x
      JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
     WHERE x.indrelid = %(relid)s AND i.relname = %(index)s
"""


def restore_identity(
    connection: Connection[TupleRow], relid: int, table: QualifiedName, former: str | None
) -> None:
    """Restore the former identity of a table, unless another one was set since."""
    if former is None:
        return
    [(identity, _)] = connection.execute(_GET, {"relid": relid}).fetchall()
    if identity != FULL:
        return
    if former.startswith(_INDEX):
        index = former.removeprefix(_INDEX)
        if connection.execute(_FIND_INDEX, {"relid": relid, "index": index}).fetchone() is not None:
            _set(connection, table, sql.SQL("USING INDEX {}").format(sql.Identifier(index)))
    else:
        _set(connection, table, _WORDS.get(former, _WORDS["d"]))


def _set(connection: Connection[TupleRow], table: QualifiedName, identity: sql.Composable) -> None:
    name = sql.Identifier(table.schema, table.name)
    connection.execute(_SET.format(table=name, identity=identity))
