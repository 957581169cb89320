"""The view that shows a copy in the lake under the name of its stream table.

``lake.public.revenue`` reads ``lake.main.revenue``, wherever the copy is: users of the stream
table in PostgreSQL find it in the lake.  A view has versions like a table; it is replaced with
the columns and dropped with the sink.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from psycopg import Connection

from pgtrickle.lake.format.catalog import LakeCatalog
from pgtrickle.lake.format.columns import LakeColumn
from pgtrickle.lake.format.tables import find_schema
from pgtrickle.lake.write.commit import Commit
from pgtrickle.model.lake.sink import LakeSink
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted

logger = logging.getLogger(__name__)

_FIND_SQL = "SELECT sql FROM {view} WHERE view_id = %s AND end_snapshot IS NULL"
# DuckDB's names are case-insensitive, and views share them with tables.
_IS_TAKEN = """
    SELECT EXISTS (SELECT FROM {table} WHERE schema_id = %(schema)s
                      AND lower(table_name) = lower(%(name)s) AND end_snapshot IS NULL)
        OR EXISTS (SELECT FROM {view} WHERE schema_id = %(schema)s
                      AND lower(view_name) = lower(%(name)s) AND end_snapshot IS NULL
                      AND view_id IS DISTINCT FROM %(own)s)
"""


def put_view(
    commit: Commit, sink: LakeSink, name: QualifiedName, columns: Sequence[LakeColumn]
) -> int | None:
    """Show a copy under the name of its stream table; return the id of the view.

    None: the copy itself has that name, or another table or view has.
    """
    sql = view_sql(sink.lake_table, columns)
    before = find_view(commit.connection, commit.catalog, sink.view_id)
    if before == sql:
        return sink.view_id
    if str(name).lower() == str(sink.lake_table).lower():
        return None
    found = find_schema(commit.connection, commit.catalog, name.schema)
    schema_id = commit.create_schema(name.schema) if found is None else found[0]
    own = None if before is None else sink.view_id
    if _is_taken(commit, schema_id, name.name, own):
        logger.warning(
            "the lake has another table or view of that name, so no view was made",
            extra={"stream_table": str(name)},
        )
        return None
    return commit.put_view(schema_id, name, sql, replaces=own)


def view_sql(table: QualifiedName, columns: Sequence[LakeColumn]) -> str:
    """Return the definition of the view, in DuckDB's SQL.

    >>> from pgtrickle.lake.format.columns import number_columns
    >>> from pgtrickle.lake.format.types import VARCHAR
    >>> view_sql(QualifiedName("main", "revenue"), number_columns([("region", VARCHAR)]))
    'SELECT "region" FROM "main"."revenue"'
    """
    return f"SELECT {', '.join(quote_identifier(one.name) for one in columns)} FROM {table.sql}"


def find_view(connection: Connection, catalog: LakeCatalog, view_id: int | None) -> str | None:
    """Return the definition of a view; None if it has ended, perhaps in DuckDB."""
    if view_id is None:
        return None
    statement = _FIND_SQL.format(view=catalog.table("view"))
    row = connection.execute(trusted(statement), [view_id]).fetchone()
    return None if row is None else str(row[0])


def _is_taken(commit: Commit, schema_id: int, name: str, own: int | None) -> bool:
    statement = _IS_TAKEN.format(
        table=commit.catalog.table("table"), view=commit.catalog.table("view")
    )
    values = {"schema": schema_id, "name": name, "own": own}
    [(taken,)] = commit.connection.execute(trusted(statement), values).fetchall()
    return bool(taken)
