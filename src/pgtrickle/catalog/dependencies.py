"""Queries over ``pgt_dependencies``: what each stream table reads, down to columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.catalog.stream_tables import STREAM_TABLE_COLUMNS, read_stream_table
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName


class SourceType(Enum):
    """The kind of a source."""

    TABLE = "TABLE"
    STREAM_TABLE = "STREAM_TABLE"
    VIEW = "VIEW"
    MATVIEW = "MATVIEW"
    FOREIGN_TABLE = "FOREIGN_TABLE"


@dataclass(frozen=True, slots=True)
class Dependency:
    """One relation that a stream table reads."""

    source_relid: int
    source: QualifiedName
    source_type: SourceType
    columns_used: tuple[str, ...]
    schema_fingerprint: str

    @property
    def columns_read(self) -> tuple[str, ...]:
        """The columns without the empty name, which says that later ones matter too."""
        return tuple(name for name in self.columns_used if name)


_INSERT = """
    INSERT INTO pgtrickle.pgt_dependencies
        (pgt_id, source_relid, source_schema, source_name, source_type, columns_used,
         schema_fingerprint)
    VALUES
        (%(stream_table_id)s, %(relid)s, %(schema)s, %(name)s, %(type)s, %(columns)s,
         %(fingerprint)s)
"""


def insert_dependencies(
    connection: Connection[TupleRow], stream_table_id: int, dependencies: Sequence[Dependency]
) -> None:
    """Record what a stream table reads.

    From the moment this commits, the stream table blocks the trimming of its sources' buffers
    until it has a frontier.
    """
    with connection.cursor() as cursor:
        cursor.executemany(
            _INSERT,
            [
                {
                    "stream_table_id": stream_table_id,
                    "relid": dependency.source_relid,
                    "schema": dependency.source.schema,
                    "name": dependency.source.name,
                    "type": dependency.source_type.value,
                    "columns": list(dependency.columns_used),
                    "fingerprint": dependency.schema_fingerprint,
                }
                for dependency in dependencies
            ],
        )


_LIST = """
    SELECT source_relid, source_schema, source_name, source_type, columns_used,
           schema_fingerprint
      FROM pgtrickle.pgt_dependencies
     WHERE pgt_id = %(stream_table_id)s
     ORDER BY source_schema, source_name
"""


def list_dependencies(connection: Connection[TupleRow], stream_table_id: int) -> list[Dependency]:
    """Return what a stream table reads."""
    return [
        Dependency(relid, QualifiedName(schema, name), SourceType(kind), tuple(columns), print_)
        for relid, schema, name, kind, columns, print_ in connection.execute(
            _LIST, {"stream_table_id": stream_table_id}
        )
    ]


_LIST_PARENTS = """
    SELECT s.pgt_schema, s.pgt_name, p.pgt_schema, p.pgt_name
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_dependencies AS d
        ON d.pgt_id = s.pgt_id AND d.source_type = 'STREAM_TABLE'
      LEFT JOIN pgtrickle.pgt_stream_tables AS p ON p.pgt_relid = d.source_relid
     WHERE s.pgt_schema <> 'pgtrickle_state'
     ORDER BY 1, 2, 3, 4
"""


def list_parents(connection: Connection[TupleRow]) -> dict[str, list[str]]:
    """Return, for each stream table, the stream tables it reads, by one query."""
    parents: dict[str, list[str]] = {}
    for schema, name, parent_schema, parent_name in connection.execute(_LIST_PARENTS):
        listed = parents.setdefault(str(QualifiedName(schema, name)), [])
        if parent_name is not None:
            listed.append(str(QualifiedName(parent_schema, parent_name)))
    return parents


_LIST_DEPENDENTS = f"""
    SELECT {STREAM_TABLE_COLUMNS}
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE d.source_relid = %(relid)s
     ORDER BY s.pgt_schema, s.pgt_name
"""


def list_dependents(connection: Connection[TupleRow], source_relid: int) -> list[StreamTable]:
    """Return the stream tables that read a relation."""
    cursor = connection.execute(_LIST_DEPENDENTS, {"relid": source_relid})
    return [read_stream_table(row) for row in cursor]


# A consumer behind a gap starts anew from a later snapshot, so no earlier row is kept for it; but
# one that is being refreshed may have taken that snapshot already.
_LIST_CONSUMER_FRONTIERS = """
    SELECT CASE WHEN s.frontier IS NOT NULL
                 AND NOT EXISTS (SELECT FROM pgtrickle.pgt_leases AS l WHERE l.pgt_id = s.pgt_id)
                 AND EXISTS (
                         SELECT FROM pgtrickle.pgt_capture_gaps AS g
                          WHERE g.source_relid = d.source_relid
                            AND (g.pgt_id IS NULL OR g.pgt_id = s.pgt_id)
                            AND NOT pg_catalog.pg_visible_in_snapshot(
                                    g.xid,
                                    (s.frontier #>> '{pg,snapshot}')::pg_catalog.pg_snapshot))
                THEN pg_catalog.jsonb_set(
                         s.frontier, '{pg,snapshot}',
                         pg_catalog.to_jsonb(pg_catalog.pg_current_snapshot()::pg_catalog.text))
                ELSE s.frontier END
      FROM pgtrickle.pgt_dependencies AS d
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = d.pgt_id
     WHERE d.source_relid = %(relid)s AND s.refresh_mode <> 'IMMEDIATE'
"""


def list_consumer_frontiers(connection: Connection[TupleRow], source_relid: int) -> list[Frontier]:
    """Return the frontiers that bound the trimming of a source's buffer.

    The list is empty when some consumer has none yet: it may still have to read every row.
    """
    frontiers = [
        row[0] for row in connection.execute(_LIST_CONSUMER_FRONTIERS, {"relid": source_relid})
    ]
    if None in frontiers:
        return []
    return [Frontier.from_json(frontier) for frontier in frontiers]


_DELETE = "DELETE FROM pgtrickle.pgt_dependencies WHERE pgt_id = %(stream_table_id)s"


def delete_dependencies(connection: Connection[TupleRow], stream_table_id: int) -> None:
    """Forget what a stream table reads, before recording it anew."""
    connection.execute(_DELETE, {"stream_table_id": stream_table_id})


_LIST_SOURCE_RELIDS = """
    SELECT pgt_id, pg_catalog.array_agg(source_relid)
      FROM pgtrickle.pgt_dependencies GROUP BY pgt_id
"""


def list_source_relids(connection: Connection[TupleRow]) -> dict[int, frozenset[int]]:
    """Return the sources of every stream table, by its id."""
    return {number: frozenset(relids) for number, relids in connection.execute(_LIST_SOURCE_RELIDS)}


# What is polled has no triggers, and what the log tells of is read when somebody looks.
_LIST_SILENT = """
    SELECT DISTINCT d.pgt_id
      FROM pgtrickle.pgt_dependencies AS d
      LEFT JOIN pgtrickle.pgt_change_tracking AS t ON t.source_relid = d.source_relid
     WHERE d.source_type NOT IN ('TABLE', 'STREAM_TABLE', 'VIEW')
        OR d.source_type <> 'VIEW' AND t.cdc_mode IS DISTINCT FROM 'TRIGGER'
"""


def list_silent(connection: Connection[TupleRow]) -> frozenset[int]:
    """Return the stream tables with a source whose writers ring no bell."""
    return frozenset(row[0] for row in connection.execute(_LIST_SILENT))
