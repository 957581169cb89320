"""The conditions under which a table can be captured, and its member tables."""

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
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class Member:
    """A source, one of its partitions or a child table: a possible target of a statement."""

    relid: int
    name: QualifiedName
    owned: bool
    stores_rows: bool
    # A relation whose file is replaced when the type of a column changes: itself, or a partition.
    stored_in: int | None
    file: int | None
    live: tuple[int, ...]  # the numbers of its columns
    columns: dict[str, tuple[int, int]]  # number and base type of each


@dataclass(frozen=True, slots=True)
class Source:
    """A table as its capture sees it; ``columns`` are all those that can be captured."""

    relid: int
    name: QualifiedName
    columns: dict[str, BufferColumn]
    members: tuple[Member, ...]
    # Statement triggers do not see writes through a parent or by logical replication.
    by_row: bool


@dataclass(frozen=True, slots=True)
class _Relation:
    relid: int
    name: QualifiedName
    kind: str
    persistence: str
    file: int | None
    has_parent: bool
    replicated: bool
    row_security: bool
    may_trigger: bool
    owned: bool
    role: str


# Like pgtrickle.list_members; for a role without rights on the schemas, _check gives the reason.
_LIST_MEMBERS = """
    WITH RECURSIVE tree (relid) AS (
        SELECT %(relid)s::pg_catalog.oid
         UNION
        SELECT i.inhrelid
          FROM tree
          JOIN pg_catalog.pg_inherits AS i
            ON i.inhparent = tree.relid AND NOT i.inhdetachpending
    )
    SELECT c.oid, n.nspname, c.relname, c.relkind::pg_catalog.text,
           c.relpersistence::pg_catalog.text, pg_catalog.pg_relation_filenode(c.oid),
           EXISTS (SELECT FROM pg_catalog.pg_inherits AS i
                    WHERE i.inhrelid = c.oid AND NOT i.inhdetachpending),
           EXISTS (SELECT FROM pg_catalog.pg_subscription_rel AS s WHERE s.srrelid = c.oid),
           pg_catalog.row_security_active(c.oid),
           pg_catalog.has_table_privilege(c.oid, 'TRIGGER'),
           pg_catalog.pg_has_role(c.relowner, 'USAGE'),
           current_user
      FROM tree
      JOIN pg_catalog.pg_class AS c ON c.oid = tree.relid
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
     ORDER BY c.oid <> %(relid)s, c.oid
"""


def get_source(connection: Connection[TupleRow], relid: int, columns: Sequence[str]) -> Source:
    """Describe a table whose ``columns`` will be captured, or raise why they cannot be."""
    cursor = connection.execute(_LIST_MEMBERS, {"relid": relid})
    relations = [
        _Relation(oid, QualifiedName(schema, name), *facts) for oid, schema, name, *facts in cursor
    ]
    if not relations or relations[0].relid != relid:
        raise SourceNotFoundError(
            "a source table does not exist any more",
            detail=f"Its oid was {relid}.",
            hint="Drop the stream table with: pgtrickle drop.",
        )
    for relation in relations:
        _check(relation, relations[0])
    name = relations[0].name
    found = _list_columns(connection, relid)
    _check_columns(connection, relid, name, found, columns)
    by_row = relations[0].has_parent or any(one.replicated for one in relations)
    for relation in relations:
        if relation.replicated and not relation.owned:
            raise PrivilegeError(
                f'"{relation.name}" is written by logical replication, and the role'
                f' "{relation.role}" does not own it',
                hint="Only an owner can let triggers follow replication: create the stream table"
                " as the owner of the table.",
            )
    return Source(relid, name, found, _members(connection, relations), by_row)


_KINDS = {
    "p": "a partitioned table",
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
}


def _check(relation: _Relation, root: _Relation) -> None:
    """Refuse tables that triggers would miss, or that the current role may not capture."""
    name = relation.name
    if name.schema in {"pg_catalog", "information_schema"}:
        reason, hint = "is a system catalog", "Copy what you need into a table."
    elif relation.kind not in {"r", "p"}:
        reason = f"is {_KINDS.get(relation.kind, 'not an ordinary table')}"
        hint = "Use tables as sources."
    elif relation.persistence == "t":
        reason, hint = "is a temporary table", "Use a permanent table."
    elif relation.persistence == "u":
        reason = "is an unlogged table, which a crash empties without a trigger"
        hint = f"Run: ALTER TABLE {name.sql} SET LOGGED;"
    elif relation is root and relation.row_security:
        reason = f'has row security, which hides rows from the role "{relation.role}"'
        hint = "Create the stream table as the table's owner or as a role with BYPASSRLS."
    elif not relation.may_trigger:
        raise PrivilegeError(
            f'the role "{relation.role}" may not create triggers on "{name}"',
            hint=f'Ask the owner to run: GRANT TRIGGER ON {name.sql} TO "{relation.role}";',
        )
    else:
        return
    part = "" if relation is root else f'its partition or child table "{name}" '
    raise UnsupportedSourceError(
        f'cannot capture changes of "{root.name}": {part or "it "}{reason}', hint=hint
    )


_LIST_VIRTUAL = """
    SELECT a.attname FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = %(relid)s AND a.attgenerated = 'v' AND NOT a.attisdropped
"""


def _check_columns(
    connection: Connection[TupleRow],
    relid: int,
    name: QualifiedName,
    found: dict[str, BufferColumn],
    columns: Sequence[str],
) -> None:
    if reserved := sorted(RESERVED_COLUMNS & found.keys()):
        raise ReservedColumnError(
            f'the table "{name}" has a column "{reserved[0]}", a name that capture reserves',
            hint="Rename the column.",
        )
    missing = sorted(set(columns) - found.keys())
    if not missing:
        return
    virtual = {row[0] for row in connection.execute(_LIST_VIRTUAL, {"relid": relid})}
    if missing[0] in virtual:
        raise UnsupportedSourceError(
            f'the column "{missing[0]}" of "{name}" is a virtual generated column,'
            " whose changes cannot be captured",
            hint="Write its expression into the query, or make the column STORED.",
        )
    raise SourceSchemaChangedError(
        f'the table "{name}" has no column "{missing[0]}" that can be captured',
        hint="Recreate the stream table with a query over the columns that exist.",
    )


# A domain may forbid NULL, which the row of a TRUNCATE needs, so buffers use its base type.  They
# leave out lengths and precisions: a value that fits a column must fit its buffer, also after the
# column was made wider.
_LIST_COLUMNS = """
    SELECT a.attname,
           pg_catalog.format_type(t.oid, -1)
           || CASE WHEN a.attcollation <> t.typcollation
                   THEN pg_catalog.format(' COLLATE %%I.%%I', cn.nspname, co.collname)
                   ELSE '' END,
           CASE WHEN t.typlen < 0 THEN 3
                WHEN t.typalign = 'd' THEN 0
                WHEN t.typalign = 'i' THEN 1
                WHEN t.typalign = 's' THEN 2
                ELSE 3 END
      FROM pg_catalog.pg_attribute AS a
      -- Asked once for each column, not for each pair of a column and a type.
     CROSS JOIN LATERAL (SELECT pgtrickle.find_base_type(a.atttypid) AS oid OFFSET 0) AS base
      JOIN pg_catalog.pg_type AS t ON t.oid = base.oid
      LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = a.attcollation
      LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = co.collnamespace
     WHERE a.attrelid = %(relid)s AND a.attnum > 0 AND NOT a.attisdropped
       -- The value of a virtual column (PostgreSQL 18) is not in a transition table.
       AND a.attgenerated <> 'v'
     ORDER BY a.attnum
"""


def _list_columns(connection: Connection[TupleRow], relid: int) -> dict[str, BufferColumn]:
    cursor = connection.execute(_LIST_COLUMNS, {"relid": relid})
    return {name: BufferColumn(name, type_, order) for name, type_, order in cursor}


_LIST_NUMBERS = """
    SELECT a.attrelid, a.attnum, a.attname, pgtrickle.find_base_type(a.atttypid)
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = ANY(%(relids)s::pg_catalog.oid[]) AND a.attnum > 0
       AND NOT a.attisdropped
     ORDER BY a.attrelid, a.attnum
"""


def _members(
    connection: Connection[TupleRow], relations: Sequence[_Relation]
) -> tuple[Member, ...]:
    numbers: dict[int, dict[str, tuple[int, int]]] = {one.relid: {} for one in relations}
    for relid, number, name, type_ in connection.execute(_LIST_NUMBERS, {"relids": list(numbers)}):
        numbers[relid][name] = (number, type_)
    stored = next((one for one in relations if one.file is not None), None)
    members = []
    for one in relations:
        kept = one if one.file is not None else stored
        columns = numbers[one.relid]
        members.append(
            Member(
                one.relid,
                one.name,
                one.owned,
                one.kind == "r",
                kept.relid if kept else None,
                kept.file if kept else None,
                tuple(number for number, _ in columns.values()),
                columns,
            )
        )
    return tuple(members)
