"""The catalog's statistics of a whole lake table: they are only ever widened.

DuckDB drops a condition, or a whole scan, by the minimum and maximum of a table's column.  So
once a file leaves them open, they stay open for the table.
"""

from __future__ import annotations

from decimal import Decimal

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.column_stats import ColumnStats
from pgtrickle.lake.write.parquet import DataFile
from pgtrickle.model.text.trusted import trusted

_WIDEN_TABLE = """
    UPDATE {table_stats}
       SET record_count = record_count + %(rows)s, next_row_id = next_row_id + %(rows)s,
           file_size_bytes = file_size_bytes + %(size)s
     WHERE table_id = %(id)s
"""
_FIND_COLUMNS = """
    SELECT c.column_id, c.column_type, s.column_id IS NOT NULL, s.contains_null, s.contains_nan,
           s.min_value, s.max_value
      FROM {column} AS c
      LEFT JOIN {column_stats} AS s USING (table_id, column_id)
     WHERE c.table_id = %s AND c.end_snapshot IS NULL
"""
_INSERT_COLUMN = "INSERT INTO {column_stats} VALUES (%s, %s, %s, %s, %s, %s, NULL)"
_UPDATE_COLUMN = """
    UPDATE {column_stats}
       SET contains_null = %s, contains_nan = %s, min_value = %s, max_value = %s
     WHERE table_id = %s AND column_id = %s
"""


def widen_table_stats(
    connection: Connection, catalog: LakeCatalog, table_id: int, file: DataFile
) -> None:
    """Add a new file to the statistics of its table."""
    names = {
        "table_stats": catalog.table("table_stats"),
        "column_stats": catalog.table("table_column_stats"),
        "column": catalog.table("column"),
    }
    values = {"rows": file.rows, "size": file.size, "id": table_id}
    connection.execute(trusted(_WIDEN_TABLE.format(**names)), values)
    found = connection.execute(trusted(_FIND_COLUMNS.format(**names)), [table_id]).fetchall()
    for column_id, type_, known, null, nan, least, greatest in found:
        stats = file.stats.get(column_id)
        if stats is None:
            continue
        if not known:
            row = [table_id, column_id, stats.nulls > 0, stats.nan, stats.least, stats.greatest]
            connection.execute(trusted(_INSERT_COLUMN.format(**names)), row)
            continue
        low, high = _widened(type_, (least, greatest), stats)
        wider = [null or stats.nulls > 0, _either(nan, stats.nan), low, high]
        if wider != [null, nan, least, greatest]:
            row = [*wider, table_id, column_id]
            connection.execute(trusted(_UPDATE_COLUMN.format(**names)), row)


def _widened(
    type_: str, known: tuple[str | None, str | None], stats: ColumnStats
) -> tuple[str | None, str | None]:
    least, greatest = known
    if stats.values == 0:
        return known
    if least is None or greatest is None or stats.least is None or stats.greatest is None:
        return None, None
    low = min(least, stats.least, key=lambda text: _sortable(text, type_))
    high = max(greatest, stats.greatest, key=lambda text: _sortable(text, type_))
    return low, high


def _either(*known: bool | None) -> bool | None:
    """Combine the statistics of NaN; unknown stays unknown."""
    return None if None in known else any(known)


def _sortable(text: str, type_: str) -> tuple[int, Decimal, bytes]:
    """Return a key that sorts the printed values of a type as the values sort.

    >>> sorted(["9", "10", "-3"], key=lambda text: _sortable(text, "int32"))
    ['-3', '9', '10']
    >>> sorted(["infinity", "2026-01-01", "-infinity"], key=lambda text: _sortable(text, "date"))
    ['-infinity', '2026-01-01', 'infinity']
    """
    if type_.startswith(("int", "uint", "float", "decimal", "double", "boolean")):
        return 0, Decimal(text), b""
    if type_.startswith(("date", "time")):
        rank = {"-infinity": -1, "infinity": 1}.get(text, 0)
        return rank, Decimal(0), text.encode()
    return 0, Decimal(0), text.encode()
