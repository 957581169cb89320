"""What a table must be like for its changes to be captured by statement triggers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import RESERVED_COLUMNS, BufferColumn
from pgtrickle.errors import (
    PrivilegeError,
    ReservedColumnError,
    SourceNotFoundError,
    SourceSchemaChangedError,
    UnsupportedSourceError,
)
from pgtrickle.model.names import QualifiedName


@dataclass(frozen=True, slots=True)
class Source:
    """A table as its capture sees it; ``columns`` are all those that can be captured."""

    relid: int
    name: QualifiedName
    owned: bool
    columns: dict[str, BufferColumn]


_GET_SOURCE = """
    SELECT n.nspname, c.relname, c.relkind::pg_catalog.text,
           c.relpersistence::pg_catalog.text, c.relispartition,
           EXISTS (SELECT FROM pg_catalog.pg_inherits AS i
                    WHERE c.oid IN (i.inhrelid, i.inhparent)),
           pg_catalog.has_table_privilege(c.oid, 'TRIGGER'),
           pg_catalog.pg_has_role(c.relowner, 'USAGE'),
           current_user
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     WHERE c.oid = %(relid)s
"""


def get_source(connection: Connection[TupleRow], relid: int, columns: Sequence[str]) -> Source:
    """Describe a table whose ``columns`` are to be captured, or say why they cannot be."""
    row = connection.execute(_GET_SOURCE, {"relid": relid}).fetchone()
    if row is None:
        raise SourceNotFoundError(
            f"the source table with oid {relid} does not exist any more",
            hint="Drop the stream table with: pgtrickle drop.",
        )
    schema, relname, kind, persistence, partition, inherits, may_trigger, owned, role = row
    name = QualifiedName(schema, relname)
    _check_kind(name, kind, persistence, inherits=partition or inherits)
    if not may_trigger:
        raise PrivilegeError(
            f'the role "{role}" may not create triggers on "{name}"',
            hint=f'Ask the owner to run: GRANT TRIGGER ON {name.sql} TO "{role}";',
        )
    found = _list_columns(connection, relid)
    if reserved := sorted(RESERVED_COLUMNS & found.keys()):
        raise ReservedColumnError(
            f'the table "{name}" has a column "{reserved[0]}", a name that capture reserves',
            hint="Rename the column.",
        )
    if missing := sorted(set(columns) - found.keys()):
        raise SourceSchemaChangedError(
            f'the table "{name}" has no column "{missing[0]}" that can be captured',
            hint="Recreate the stream table with a query over the columns that exist.",
        )
    return Source(relid, name, owned, found)


_KINDS = {"p": "a partitioned table", "v": "a view", "m": "a materialized view"}


def _check_kind(name: QualifiedName, kind: str, persistence: str, *, inherits: bool) -> None:
    """Refuse what statement triggers would miss.

    PostgreSQL fires the statement triggers of the table a statement names: a write through a
    parent does not fire those of its children, nor the other way round.
    """
    if name.schema in {"pg_catalog", "information_schema"}:
        reason, hint = "is a system catalog", "Copy what you need into a table."
    elif kind != "r":
        reason = f"is {_KINDS.get(kind, 'not an ordinary table')}"
        hint = "Use ordinary tables as sources."
    elif persistence == "t":
        reason, hint = "is a temporary table", "Use a permanent table."
    elif persistence == "u":
        reason = "is an unlogged table, which a crash empties without a trigger"
        hint = f"Run: ALTER TABLE {name.sql} SET LOGGED;"
    elif inherits:
        reason = "is part of an inheritance tree or a partition"
        hint = "Use ordinary tables as sources."
    else:
        return
    raise UnsupportedSourceError(f'cannot capture changes of "{name}": it {reason}', hint=hint)


# A domain may forbid NULL, which the row of a TRUNCATE needs, so buffers use its base type.
_LIST_COLUMNS = """
    WITH RECURSIVE resolved AS (
        SELECT a.attnum, a.attname, a.attcollation, a.atttypid AS typid, a.atttypmod AS typmod
          FROM pg_catalog.pg_attribute AS a
         WHERE a.attrelid = %(relid)s AND a.attnum > 0 AND NOT a.attisdropped
           -- The value of a virtual column (PostgreSQL 18) is not in a transition table.
           AND a.attgenerated <> 'v'
         UNION ALL
        SELECT r.attnum, r.attname, r.attcollation, t.typbasetype,
               CASE WHEN r.typmod = -1 THEN t.typtypmod ELSE r.typmod END
          FROM resolved AS r
          JOIN pg_catalog.pg_type AS t ON t.oid = r.typid AND t.typtype = 'd'
    )
    SELECT r.attname,
           pg_catalog.format_type(r.typid, r.typmod)
           || CASE WHEN r.attcollation <> t.typcollation
                   THEN pg_catalog.format(' COLLATE %%I.%%I', cn.nspname, co.collname)
                   ELSE '' END,
           CASE WHEN t.typlen < 0 THEN 3
                WHEN t.typalign = 'd' THEN 0
                WHEN t.typalign = 'i' THEN 1
                WHEN t.typalign = 's' THEN 2
                ELSE 3 END
      FROM resolved AS r
      JOIN pg_catalog.pg_type AS t ON t.oid = r.typid AND t.typtype <> 'd'
      LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = r.attcollation
      LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = co.collnamespace
     ORDER BY r.attnum
"""


def _list_columns(connection: Connection[TupleRow], relid: int) -> dict[str, BufferColumn]:
    cursor = connection.execute(_LIST_COLUMNS, {"relid": relid})
    return {name: BufferColumn(name, type_, order) for name, type_, order in cursor}
