"""Rows of a lake table that are not in files: DuckDB keeps small inserts in the catalog.

There is one table for each shape that the lake table had, with the column names of that time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.columns import ROW_ID
from pgtrickle.lake.format.trust import check_inlined_name
from pgtrickle.lake.reader.columns import ReadColumn, list_columns
from pgtrickle.lake.reader.conform import FileField, conform
from pgtrickle.lake.reader.values import parse_values
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted

# Versions are counted for the whole catalog: the last change before a row gives its shape.
_LIST_TABLES = """
    SELECT i.table_name, (
               SELECT max(v.begin_snapshot) FROM {schema_versions} AS v
                WHERE v.table_id = i.table_id AND v.schema_version <= i.schema_version)
      FROM {inlined_data_tables} AS i WHERE i.table_id = %s ORDER BY i.schema_version
"""
_AS_BYTES = frozenset({"varchar", "json", "blob"})


def read_inlined(
    connection: Connection,
    catalog: LakeCatalog,
    table_id: int,
    columns: Sequence[ReadColumn],
    snapshot_id: int,
) -> tuple[pa.RecordBatch, ...]:
    """Return the rows in the catalog that belong to a snapshot, with its columns."""
    return tuple(
        batch.drop_columns([ROW_ID])
        for batch in read_inlined_versions(connection, catalog, table_id, columns, snapshot_id)
    )


def read_inlined_versions(
    connection: Connection,
    catalog: LakeCatalog,
    table_id: int,
    columns: Sequence[ReadColumn],
    snapshot_id: int,
    after: int = -1,
) -> tuple[pa.RecordBatch, ...]:
    """Return the same with row ids as the first column, if inserted ``after`` a snapshot.

    A row is updated by another of the same id.
    """
    batches = []
    for table, shaped in _list_tables(connection, catalog, table_id):
        if shaped is None or shaped > snapshot_id:
            continue  # of a later shape
        then = {one.id: one for one in list_columns(connection, catalog, table_id, shaped)}
        listed = ", ".join(["row_id", *(_text_of(then.get(column.id)) for column in columns)])
        rows = connection.execute(
            trusted(
                f"SELECT {listed} FROM {table}"
                " WHERE begin_snapshot <= %(snapshot)s AND begin_snapshot > %(after)s"
                " AND (end_snapshot IS NULL OR end_snapshot > %(snapshot)s)"
                " ORDER BY row_id"
            ),
            {"snapshot": snapshot_id, "after": after},
        ).fetchall()
        if rows:
            batches.append(_batch(columns, then, rows))
    return tuple(batches)


def read_inlined_ends(
    connection: Connection, catalog: LakeCatalog, table_id: int, since: int, until: int
) -> list[int]:
    """Return the ids of rows in the catalog that a snapshot has and a later one lacks."""
    ids: list[int] = []
    for table, _ in _list_tables(connection, catalog, table_id):
        ids += [
            row_id
            for (row_id,) in connection.execute(
                trusted(
                    f"SELECT row_id FROM {table} WHERE begin_snapshot <= %(since)s"
                    " AND end_snapshot > %(since)s AND end_snapshot <= %(until)s"
                ),
                {"since": since, "until": until},
            )
        ]
    return ids


def _list_tables(
    connection: Connection, catalog: LakeCatalog, table_id: int
) -> list[tuple[str, int | None]]:
    names = {
        "schema_versions": catalog.table("schema_versions"),
        "inlined_data_tables": catalog.table("inlined_data_tables"),
    }
    tables = connection.execute(trusted(_LIST_TABLES.format(**names)), [table_id]).fetchall()
    return [(catalog.table(check_inlined_name(table_id, name)), shaped) for name, shaped in tables]


def _text_of(column: ReadColumn | None) -> str:
    if column is None:
        return "NULL"
    name = quote_identifier(column.name)
    return name if column.kind in _AS_BYTES else f"{name}::text"


def _batch(
    columns: Sequence[ReadColumn],
    then: dict[int, ReadColumn],
    rows: Sequence[Sequence[Any]],
) -> pa.RecordBatch:
    arrays = [pa.array([row[0] for row in rows], pa.int64())]
    for place, column in enumerate(columns, 1):
        was = then.get(column.id)
        if was is None:
            arrays.append(parse_values(column, [column.default] * len(rows)))
        else:
            # In the type it had: the text of a short float says less than the value of a long one.
            values = parse_values(was, [row[place] for row in rows])
            arrays.append(conform(values, _field(0, was), column))
    fields = [pa.field(column.name, column.arrow) for column in columns]
    schema = pa.schema([pa.field(ROW_ID, pa.int64()), *fields])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _field(index: int, column: ReadColumn) -> FileField:
    return FileField(
        index, column.id, tuple(_field(place, part) for place, part in enumerate(column.parts))
    )
