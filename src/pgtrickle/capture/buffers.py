"""Change buffers: one table per captured source, holding its changes as weighted rows.

``pgtrickle_changes.changes_<relid>`` has ``__xid`` (the writing transaction), ``__weight`` (+1
inserted, -1 deleted, 0 a TRUNCATE) and the captured columns under their own names and types.

The table has no index, because an index costs writers more than anything else here (a btree on
``__xid`` takes DELETE from 3.2 to 5.6 times its uncaptured cost).  It is read by a sequential
scan, so it must stay small: consumed rows are trimmed, and those that one slow consumer still
needs are moved to the child table ``changes_<relid>_settled``, which has the index.  Inheritance
makes the two one table for every reader; writers only ever touch the parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.model.text.names import QualifiedName

BUFFER_SCHEMA = "pgtrickle_changes"
XID_COLUMN = "__xid"
WEIGHT_COLUMN = "__weight"
RESERVED_COLUMNS = frozenset({XID_COLUMN, WEIGHT_COLUMN})


@dataclass(frozen=True, slots=True)
class BufferColumn:
    """A captured column: its type is SQL text, with domains replaced by their base types."""

    name: str
    type: str
    # Fixed-width columns come first, widest alignment first, so that rows carry no padding.
    storage_order: int


def buffer_name(relid: int) -> str:
    """Name the buffer of a source, without its schema.

    >>> buffer_name(16384)
    'changes_16384'
    """
    return f"changes_{relid:d}"


def buffer_of(relid: int) -> QualifiedName:
    """Name the buffer of a source.

    >>> buffer_of(16384).sql
    '"pgtrickle_changes"."changes_16384"'
    """
    return QualifiedName(BUFFER_SCHEMA, buffer_name(relid))


def settled_of(relid: int) -> QualifiedName:
    """Name the indexed child that keeps the changes that slow consumers have not read yet.

    >>> settled_of(16384).name
    'changes_16384_settled'
    """
    return QualifiedName(BUFFER_SCHEMA, f"{buffer_name(relid)}_settled")


_LIST_COLUMNS = """
    SELECT a.attname, pg_catalog.format_type(a.atttypid, -1)
           || CASE WHEN a.attcollation <> t.typcollation
                   THEN pg_catalog.format(' COLLATE %%I.%%I', cn.nspname, co.collname)
                   ELSE '' END
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
      JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
      LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = a.attcollation
      LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = co.collnamespace
     WHERE n.nspname = 'pgtrickle_changes' AND c.relname = %(buffer)s
       AND a.attnum > 0 AND NOT a.attisdropped AND a.attname NOT IN ('__xid', '__weight')
     ORDER BY a.attnum
"""


def list_buffer_columns(connection: Connection[TupleRow], relid: int) -> dict[str, str] | None:
    """Return the captured columns with their types, or None when there is no buffer."""
    columns: dict[str, str] = dict(
        connection.execute(_LIST_COLUMNS, {"buffer": buffer_name(relid)}).fetchall()
    )
    return columns if columns or _exists(connection, relid) else None


_EXISTS = """
    SELECT FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE n.nspname = 'pgtrickle_changes' AND c.relname = %(buffer)s
"""


def _exists(connection: Connection[TupleRow], relid: int) -> bool:
    return connection.execute(_EXISTS, {"buffer": buffer_name(relid)}).fetchone() is not None


# Autovacuum by number of rows, not by share: trimming leaves dead rows at the front and a
# sequential scan reads each page until vacuum frees it.
_CREATE = sql.SQL("""
    CREATE TABLE {buffer} ({columns}) WITH (
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_insert_scale_factor = 0,
        autovacuum_vacuum_insert_threshold = 1000000,
        autovacuum_analyze_scale_factor = 0,
        autovacuum_analyze_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0
    )
""")
_CREATE_SETTLED = sql.SQL("CREATE TABLE {settled} () INHERITS ({buffer})")
_INDEX_SETTLED = sql.SQL("CREATE INDEX ON {settled} (__xid)")
# ALTER DEFAULT PRIVILEGES may have granted rights to PUBLIC.
_REVOKE = sql.SQL("REVOKE ALL ON TABLE {buffer}, {settled} FROM PUBLIC")


def create_buffer(
    connection: Connection[TupleRow], relid: int, columns: Sequence[BufferColumn]
) -> None:
    """Create the buffer of a source and its settled child."""
    weight = BufferColumn(WEIGHT_COLUMN, "pg_catalog.int2 NOT NULL", 2)
    ordered = [
        BufferColumn(XID_COLUMN, "pg_catalog.xid8 NOT NULL", 0),
        *sorted([*columns, weight], key=lambda column: column.storage_order),
    ]
    names = {
        "buffer": _identifier(buffer_of(relid)),
        "settled": _identifier(settled_of(relid)),
    }
    connection.execute(
        _CREATE.format(columns=sql.SQL(", ").join(map(_definition, ordered)), **names)
    )
    connection.execute(_CREATE_SETTLED.format(**names))
    connection.execute(_INDEX_SETTLED.format(**names))
    connection.execute(_REVOKE.format(**names))


_LIST_LIMITED = """
    SELECT a.attname, pg_catalog.format_type(a.atttypid, -1)
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = pg_catalog.to_regclass(%(buffer)s) AND a.attnum > 0
       AND NOT a.attisdropped AND a.atttypmod <> -1
"""
_ALTER = sql.SQL("ALTER TABLE {buffer} {actions}")
_LOOSEN = sql.SQL("ALTER COLUMN {column} TYPE {type}")


def loosen_buffer(connection: Connection[TupleRow], relid: int) -> None:
    """Remove lengths and precisions from the columns of a buffer of an earlier version.

    No row is rewritten: every value fits.
    """
    cursor = connection.execute(_LIST_LIMITED, {"buffer": buffer_of(relid).sql})
    actions = [
        _LOOSEN.format(column=sql.Identifier(name), type=sql.SQL(type_)) for name, type_ in cursor
    ]
    if actions:
        connection.execute(
            _ALTER.format(buffer=_identifier(buffer_of(relid)), actions=sql.SQL(", ").join(actions))
        )


def change_buffer_columns(
    connection: Connection[TupleRow],
    relid: int,
    *,
    add: Sequence[BufferColumn] = (),
    drop: Sequence[str] = (),
) -> None:
    """Add and drop captured columns, in the child too; rows already there get NULL.

    Those rows are before the frontier of the consumer of a new column, because it is added
    before its first snapshot, so no consumer reads the NULLs.
    """
    actions: list[sql.Composable] = [
        sql.SQL("DROP COLUMN {}").format(sql.Identifier(name)) for name in drop
    ]
    actions += [sql.SQL("ADD COLUMN {}").format(_definition(column)) for column in add]
    if actions:
        connection.execute(
            _ALTER.format(buffer=_identifier(buffer_of(relid)), actions=sql.SQL(", ").join(actions))
        )


_DROP = sql.SQL("DROP TABLE IF EXISTS {settled}, {buffer}")


def drop_buffer(connection: Connection[TupleRow], relid: int) -> None:
    """Drop the buffer of a source with all captured changes."""
    connection.execute(
        _DROP.format(settled=_identifier(settled_of(relid)), buffer=_identifier(buffer_of(relid)))
    )


def _identifier(name: QualifiedName) -> sql.Identifier:
    return sql.Identifier(name.schema, name.name)


def _definition(column: BufferColumn) -> sql.Composed:
    # The type comes from format_type: SQL text made by PostgreSQL, not by a user.
    return sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.type))
