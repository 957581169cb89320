"""Which indexes a bounded read needs and does not find."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.algebra.nodes import Scan, SourceKind
from pgtrickle.delta.key_sets import Bound
from pgtrickle.model.names import quote_identifier
from pgtrickle.sql.scalars import bare_column

_INDEXED = """
    SELECT EXISTS (
        SELECT 1
          FROM pg_catalog.pg_index AS i
          JOIN pg_catalog.pg_attribute AS a
            ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
         WHERE i.indrelid = %(relid)s::oid AND a.attname = %(column)s
           AND i.indisvalid AND i.indpred IS NULL
    )
"""


def missing_indexes(
    connection: Connection, scan: Scan, bounds: tuple[Bound, ...]
) -> tuple[str, ...]:
    """Return the CREATE INDEX statements without which a bounded read scans its table.

    One index helps a bound of several columns; each of several bounds needs its own.
    """
    if scan.source.kind is not SourceKind.TABLE or scan.source.relation is None:
        return ()
    missing: dict[str, None] = {}
    for bound in bounds:
        columns = [column for one in bound if (column := _own_column(scan, one.column)) is not None]
        if columns and not any(_indexed(connection, scan.source.relid, one) for one in columns):
            wanted = quote_identifier(columns[0])
            missing[f"CREATE INDEX ON {scan.source.relation.sql} ({wanted});"] = None
    return tuple(missing)


def _own_column(scan: Scan, name: str) -> str | None:
    for output in scan.outputs:
        if output.name == name:
            return bare_column(output.scalar)
    return None


def _indexed(connection: Connection, relid: int, column: str) -> bool:
    [(found,)] = connection.execute(_INDEXED, {"relid": relid, "column": column}).fetchall()
    return bool(found)
