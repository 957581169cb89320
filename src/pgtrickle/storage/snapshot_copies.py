"""The tables of a snapshot: a copy of the rows, and one of each state table.

The rows are in a table of the user's schema; the copies of the state are in our own schema, under
the number of the snapshot.
"""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.model.text.names import QualifiedName, quote_identifier, quote_literal
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.fill import indexed_afterwards

_SCHEMA = "pgtrickle_state"

Form = list[tuple[str, str]]  # the columns with their types and collations

_LIST_COLUMNS = """
    SELECT a.attname::pg_catalog.text,
           pg_catalog.format_type(a.atttypid, a.atttypmod) || COALESCE(' COLLATE ' ||
               NULLIF(a.attcollation, 0)::pg_catalog.regcollation::pg_catalog.text, '')
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = pg_catalog.to_regclass(%(table)s) AND a.attnum > 0
       AND NOT a.attisdropped AND a.attgenerated = ''
     ORDER BY a.attnum
"""


def list_stored_columns(connection: Connection, table: QualifiedName) -> Form:
    """Return the columns of a table that are stored and not generated, with their types."""
    return connection.execute(_LIST_COLUMNS, {"table": table.sql}).fetchall()


_LIST_TABLES = """
    SELECT c.relname::pg_catalog.text
      FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = 'pgtrickle_state'::pg_catalog.regnamespace AND c.relkind = 'r'
       AND pg_catalog.starts_with(c.relname::pg_catalog.text, %(prefix)s)
     ORDER BY c.relname
"""


def copy_rows(connection: Connection, source: QualifiedName, target: QualifiedName) -> int:
    """Copy the rows of a stream table into a new table that nobody changes; return how many."""
    listed = ", ".join(
        quote_identifier(name) for name, _ in list_stored_columns(connection, source)
    )
    query = f"SELECT {listed} FROM ONLY {source.sql}"
    rows = connection.execute(trusted(f"CREATE TABLE {target.sql} AS {query}")).rowcount
    connection.execute(
        trusted(
            "CREATE TRIGGER pgtrickle_snapshot_guard"
            f" BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {target.sql}"
            " FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_snapshot_write()"
        )
    )
    comment = quote_literal(f"pgtrickle snapshot of {source}")
    connection.execute(trusted(f"COMMENT ON TABLE {target.sql} IS {comment}"))
    return rows


def copy_state(connection: Connection, stream_table_id: int, snapshot_id: int) -> None:
    """Copy the state tables of a stream table for a snapshot."""
    for part in _list_parts(connection, _own(stream_table_id)):
        source, target = _table(_own(stream_table_id), part), _table(_kept(snapshot_id), part)
        connection.execute(trusted(f"CREATE TABLE {target.sql} AS TABLE ONLY {source.sql}"))


def fits_state(connection: Connection, stream_table_id: int, snapshot_id: int) -> bool:
    """Tell whether the copies of a snapshot have the form of a stream table's state."""
    return _forms(connection, _own(stream_table_id)) == _forms(connection, _kept(snapshot_id))


def restore_state(connection: Connection, stream_table_id: int, snapshot_id: int) -> None:
    """Replace the state of a stream table by that of a snapshot."""
    for part in _list_parts(connection, _kept(snapshot_id)):
        source, target = _table(_kept(snapshot_id), part), _table(_own(stream_table_id), part)
        columns = list_stored_columns(connection, source)
        listed = ", ".join(quote_identifier(name) for name, _ in columns)
        connection.execute(trusted(f"TRUNCATE ONLY {target.sql}"))
        with indexed_afterwards(connection, target, f"ONLY {source.sql}"):
            query = f"SELECT {listed} FROM ONLY {source.sql}"
            connection.execute(trusted(f"INSERT INTO {target.sql} ({listed}) {query}"))
        connection.execute(trusted(f"ANALYZE {target.sql}"))


def drop_state_copies(connection: Connection, snapshot_id: int) -> None:
    """Drop the copies of the state that belong to a snapshot."""
    for part in _list_parts(connection, _kept(snapshot_id)):
        connection.execute(trusted(f"DROP TABLE {_table(_kept(snapshot_id), part).sql}"))


def _own(stream_table_id: int) -> str:
    return f"st_{stream_table_id}_"


def _kept(snapshot_id: int) -> str:
    return f"snapshot_{snapshot_id}_"


def _table(prefix: str, part: str) -> QualifiedName:
    return QualifiedName(_SCHEMA, f"{prefix}{part}")


def _list_parts(connection: Connection, prefix: str) -> list[str]:
    found = connection.execute(_LIST_TABLES, {"prefix": prefix}).fetchall()
    return [name.removeprefix(prefix) for (name,) in found]


def _forms(connection: Connection, prefix: str) -> dict[str, Form]:
    return {
        part: list_stored_columns(connection, _table(prefix, part))
        for part in _list_parts(connection, prefix)
    }
