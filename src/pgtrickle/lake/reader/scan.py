"""The parts of a read of a lake table: files, their deleted rows, rows in the catalog.

A row belongs to a snapshot if it began with it or before, and did not end with it or before.
All of it is read in one transaction, so that housekeeping cannot move rows meanwhile.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from psycopg import Connection

from pgtrickle.errors import LakeReadError
from pgtrickle.lake.files.roots import LakePath, Roots, shown
from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.reader.columns import ReadColumn
from pgtrickle.lake.reader.inlined_rows import read_inlined
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

LIVE = (
    "{0}.begin_snapshot <= %(snapshot)s"
    " AND ({0}.end_snapshot IS NULL OR {0}.end_snapshot > %(snapshot)s)"
)


@dataclass(frozen=True, slots=True)
class NameMapping:
    """The columns of a file's fields, if the file itself has no ids."""

    id: int
    column_id: int
    name: str
    parent: int | None


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A data file, with everything needed to read its rows in a snapshot."""

    id: int
    path: LakePath
    size: int
    checks_snapshots: bool  # some of its rows are later: each row records when
    deletes: tuple[LakePath, ...] = ()  # files of deleted positions: a flush may leave a second one
    dead: tuple[int, ...] = ()  # positions that are deleted in the catalog itself
    mapping: tuple[NameMapping, ...] = ()
    first_row_id: int | None = None  # ids count up from it, unless the rows have their own


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as of a snapshot."""

    id: int
    directory: str
    uuid: str = ""
    roots: Roots = field(default=Roots(()), compare=False)

    def place(self, path: str | None, *, relative: bool) -> LakePath:
        """Return the path of a file of the table, or raise ST708 if it is not allowed."""
        return self.roots.place(self.directory + (path or "") if relative else path or "")


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of a table in a snapshot."""

    snapshot_id: int
    columns: tuple[ReadColumn, ...]
    files: tuple[ReadFile, ...]
    inlined: tuple[pa.RecordBatch, ...] = field(default=())


_FIND_TABLE = f"""
    SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative, t.table_uuid::text
      FROM {{table}} AS t JOIN {{schema}} AS s USING (schema_id)
     WHERE {LIVE.format("s")} AND {LIVE.format("t")} AND {{which}}
"""


def find_table_at(
    connection: Connection, catalog: LakeCatalog, name: QualifiedName, snapshot_id: int
) -> FoundTable:
    """Return a table of a snapshot by its name, or raise ST704."""
    which = "s.schema_name = %(schema)s AND t.table_name = %(name)s"
    values = {"schema": name.schema, "name": name.name, "snapshot": snapshot_id}
    found = _find_table(connection, catalog, which, values)
    if found is None:
        raise LakeReadError(
            f'the lake has no table "{name}" in snapshot {snapshot_id}',
            hint="Name it as schema.name; without a schema, main is meant.",
        )
    return found


def find_same_table(
    connection: Connection, catalog: LakeCatalog, id_: int, uuid: str, snapshot_id: int
) -> FoundTable | None:
    """Return a table of a snapshot by its identity, under any name."""
    which = "t.table_id = %(id)s AND t.table_uuid::text = %(uuid)s"
    values = {"id": id_, "uuid": uuid, "snapshot": snapshot_id}
    return _find_table(connection, catalog, which, values)


def _find_table(
    connection: Connection, catalog: LakeCatalog, which: str, values: dict[str, object]
) -> FoundTable | None:
    statement = _FIND_TABLE.format(
        table=catalog.table("table"), schema=catalog.table("schema"), which=which
    )
    row = connection.execute(trusted(statement), values).fetchone()
    if row is None:
        return None
    schema = _below(catalog.data_path, row[1], relative=row[2])
    return FoundTable(row[0], _below(schema, row[3], relative=row[4]), row[5], catalog.roots)


def _below(directory: str, path: str | None, *, relative: bool) -> str:
    joined = directory + (path or "") if relative else path or ""
    return joined if joined.endswith("/") else joined + "/"


def plan_scan(
    connection: Connection,
    catalog: LakeCatalog,
    table: FoundTable,
    columns: Sequence[ReadColumn],
    snapshot_id: int,
    pruned: frozenset[int] = frozenset(),
) -> Scan:
    """Return the necessary reads, without the files of the given ids."""
    values = {"table": table.id, "snapshot": snapshot_id}
    files = _list_files(connection, catalog, table, values, pruned)
    inlined = read_inlined(connection, catalog, table.id, columns, snapshot_id)
    return Scan(snapshot_id, tuple(columns), files, inlined)


_LIST_FILES = f"""
    SELECT f.data_file_id, f.path, f.path_is_relative, f.file_format, f.file_size_bytes,
           f.encryption_key, f.mapping_id, f.partial_max > %(snapshot)s, f.row_id_start,
           d.path, d.path_is_relative, d.format, d.encryption_key
      FROM {{data_file}} AS f
      LEFT JOIN {{delete_file}} AS d ON d.data_file_id = f.data_file_id AND {LIVE.format("d")}
     WHERE f.table_id = %(table)s AND {LIVE.format("f")}
     ORDER BY f.data_file_id
"""


def _list_files(
    connection: Connection,
    catalog: LakeCatalog,
    table: FoundTable,
    values: dict[str, int],
    pruned: frozenset[int],
) -> tuple[ReadFile, ...]:
    found = connection.execute(
        trusted(
            _LIST_FILES.format(
                data_file=catalog.table("data_file"), delete_file=catalog.table("delete_file")
            )
        ),
        values,
    ).fetchall()
    dead = find_inlined_deletes(connection, catalog, values)
    mappings = find_mappings(connection, catalog, table.id)
    files: dict[int, ReadFile] = {}
    for id_, path, relative, format_, size, key, mapping, partial, first, *deletes in found:
        if id_ in pruned:
            continue
        check_readable(path, format_, key)
        file = files.get(id_) or ReadFile(
            id_,
            table.place(path, relative=relative),
            size,
            bool(partial),
            (),
            tuple(sorted(dead[id_])),
            mappings[mapping] if mapping is not None else (),
            first,
        )
        files[id_] = replace(file, deletes=file.deletes + delete_files(table, deletes))
    return tuple(files.values())


def delete_files(table: FoundTable, found: Sequence[Any]) -> tuple[LakePath, ...]:
    """Return the path of a delete file, from its columns in the catalog; empty if there is none."""
    path, relative, format_, key = found
    if path is None:
        return ()
    check_readable(path, format_, key)
    return (table.place(path, relative=relative),)


def check_readable(path: str, format_: str, key: str | None) -> None:
    """Raise ST704 for a file that is not plain Parquet."""
    if format_ != "parquet" or key is not None:
        what = f"of the format {shown(format_)}" if key is None else "encrypted"
        raise LakeReadError(
            f'the file "{shown(path)}" of the lake is {what}',
            hint="Only Parquet files that are not encrypted can be read.",
        )


def find_inlined_deletes(
    connection: Connection, catalog: LakeCatalog, values: dict[str, int]
) -> dict[int, list[int]]:
    """Return the positions that are deleted in the catalog itself, by the ids of their files."""
    dead: dict[int, list[int]] = defaultdict(list)
    table = catalog.table(f"inlined_delete_{values['table']}")
    [(there,)] = connection.execute("SELECT pg_catalog.to_regclass(%s)", [table]).fetchall()
    if there is not None:
        for file_id, position in connection.execute(
            trusted(f"SELECT file_id, row_id FROM {table} WHERE begin_snapshot <= %(snapshot)s"),
            values,
        ):
            dead[file_id].append(position)
    return dead


_LIST_MAPPINGS = """
    SELECT m.mapping_id, m.type, n.column_id, n.target_field_id, n.source_name, n.parent_column,
           n.is_partition
      FROM {column_mapping} AS m JOIN {name_mapping} AS n USING (mapping_id)
     WHERE m.table_id = %s
"""


def find_mappings(
    connection: Connection, catalog: LakeCatalog, table_id: int
) -> dict[int, tuple[NameMapping, ...]]:
    """Return the column names in files without ids."""
    found: dict[int, tuple[NameMapping, ...]] = defaultdict(tuple)
    for mapping, type_, id_, target, name, parent, in_path in connection.execute(
        trusted(
            _LIST_MAPPINGS.format(
                column_mapping=catalog.table("column_mapping"),
                name_mapping=catalog.table("name_mapping"),
            )
        ),
        [table_id],
    ):
        if type_ != "map_by_name" or in_path:
            raise LakeReadError(
                f'a file of the lake has the values of "{name}" in its path'
                if in_path
                else f"a file of the lake has a mapping of columns of the kind {type_}",
                hint="Let DuckDB write the rows into a table of their own.",
            )
        found[mapping] += (NameMapping(id_, target, name, parent),)
    return found
