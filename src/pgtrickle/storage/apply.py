"""Apply a weighted result to the user's table: delete and insert exactly those rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.algebra.nodes import Output, Scalar
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.errors import ContentsDivergedError
from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.sql_type import Column
from pgtrickle.storage.definitions import column_definitions
from pgtrickle.storage.identity import comparable, representative, row_hash, same_row
from pgtrickle.storage.tracking import Tracking

_RESULT = '"result__changes"'
_GUARD = "pgtrickle_guard"
_OPEN_GUARD = "SELECT pgtrickle.open_guard(%s::pg_catalog.regclass)"


@dataclass(frozen=True, slots=True)
class Applied:
    """How many rows a refresh wrote."""

    inserted: int
    deleted: int


def create_table(connection: Connection, name: QualifiedName, columns: Sequence[Column]) -> None:
    """Create the user's table with exactly the query's columns, and a guard against other writers.

    The index that finds a row comes with the first rows: building it over them takes a fraction
    of the time that keeping it up row by row would.
    """
    listed = column_definitions(columns)
    connection.execute(f"CREATE TABLE {name.sql} ({listed})".encode())
    ensure_guard(connection, name)


_HAS_GUARD = """
    SELECT FROM pg_catalog.pg_trigger AS t
     WHERE t.tgrelid = pg_catalog.to_regclass(%(name)s) AND t.tgname = %(guard)s
       AND t.tgenabled <> 'D'
"""


def ensure_guard(connection: Connection, name: QualifiedName) -> bool:
    """Create the guard of a stream table, if it is missing or disabled; tell whether it was."""
    if connection.execute(_HAS_GUARD, {"name": name.sql, "guard": _GUARD}).fetchone() is not None:
        return False
    connection.execute(
        (
            f"CREATE OR REPLACE TRIGGER {_GUARD}"
            f" BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {name.sql}"
            " FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_write()"
        ).encode()
    )
    return True


_HAS_ROW_INDEX = """
    SELECT EXISTS (
        SELECT FROM pg_catalog.pg_index AS i
         WHERE i.indrelid = pg_catalog.to_regclass(%(name)s) AND i.indisvalid
           AND pg_catalog.pg_get_indexdef(i.indexrelid) LIKE '%%hash_record_extended(%%'
    )
"""


def ensure_row_index(
    connection: Connection, name: QualifiedName, columns: Sequence[Column]
) -> None:
    """Create the index that finds a row by its hash, unless it is there; blocks no reader."""
    [(there,)] = connection.execute(_HAS_ROW_INDEX, {"name": name.sql}).fetchall()
    if not there:
        connection.execute(f"CREATE INDEX ON {name.sql} ({row_hash(columns)})".encode())


_LIST_ROW_INDEXES = """
    SELECT i.indexrelid::pg_catalog.regclass::pg_catalog.text
      FROM pg_catalog.pg_index AS i
     WHERE i.indrelid = pg_catalog.to_regclass(%(name)s)
       AND pg_catalog.pg_get_indexdef(i.indexrelid) LIKE '%%hash_record_extended(%%'
"""


def drop_row_index(connection: Connection, name: QualifiedName) -> None:
    """Drop the index that finds a row, because the rows are to have other columns."""
    for (index,) in connection.execute(_LIST_ROW_INDEXES, {"name": name.sql}).fetchall():
        connection.execute(f"DROP INDEX {index}".encode())


def load_result(
    connection: Connection,
    name: QualifiedName,
    outputs: Sequence[Output],
    source: str,
    condition: Scalar | None,
    *,
    weight: str,
) -> Applied | None:
    """Fill an empty table straight from weighted rows; None where that is not enough.

    As long as no weight is negative there is nothing to subtract and nothing to consolidate, so
    the rows need neither be grouped nor stored a second time on their way.
    """
    where = f" WHERE {condition.sql}" if condition else ""
    [(filled,)] = connection.execute(f"SELECT EXISTS (SELECT FROM {name.sql})".encode()).fetchall()
    if filled:
        return None
    least, most = 1, 1
    if weight == WEIGHT:
        [(least, most)] = connection.execute(
            f"SELECT min({WEIGHT}), max({WEIGHT}) FROM {source}{where}".encode()
        ).fetchall()
        if least is None:
            return Applied(0, 0)
        if least < 0:
            return None
    names = ", ".join(quote_identifier(output.name) for output in outputs)
    computed = ", ".join(_computed(output) for output in outputs)
    repeated = "" if least == most == 1 else f", pg_catalog.generate_series(1, {WEIGHT})"
    rows = f"SELECT {computed} FROM {source}{repeated}{where}"
    connection.execute(_OPEN_GUARD, [name.sql])
    inserted = connection.execute(f"INSERT INTO {name.sql} ({names})\n{rows}".encode()).rowcount
    return Applied(inserted, 0)


def _computed(output: Output) -> str:
    """Write an output of the outermost projection in the type that the user's table has."""
    return f"({output.scalar.sql})::{output.type.display} AS {quote_identifier(output.name)}"


def weigh_result(
    connection: Connection,
    outputs: Sequence[Output],
    source: str,
    condition: Scalar | None,
    *,
    weight: str,
    less: QualifiedName | None,
) -> None:
    """Compute the outermost projection and consolidate it into the result's changes.

    ``source`` is a relation of weighted rows.  With ``less``, what that table holds now is
    subtracted, so that only the difference remains.
    """
    names = [quote_identifier(output.name) for output in outputs]
    computed = ", ".join(_computed(output) for output in outputs)
    where = f" WHERE {condition.sql}" if condition else ""
    rows = f"SELECT {computed}, {weight} AS {WEIGHT} FROM {source}{where}"
    if less is not None:
        rows += f"\nUNION ALL SELECT {', '.join(names)}, -1 FROM {less.sql}"
    grouped = [comparable(name, output.type) for name, output in zip(names, outputs, strict=True)]
    shown = [
        f"{representative(name, output.type)} AS {name}" if group != name else name
        for group, name, output in zip(grouped, names, outputs, strict=True)
    ]
    connection.execute(
        (
            f"CREATE TEMPORARY TABLE {_RESULT} ON COMMIT DROP AS\n"
            f"SELECT {', '.join(shown)}, sum({WEIGHT})::bigint AS {WEIGHT}\n"
            f"  FROM (\n{rows}\n) AS rows\n"
            f" GROUP BY {', '.join(grouped)} HAVING sum({WEIGHT}) <> 0"
        ).encode()
    )


def apply_result(
    connection: Connection,
    name: QualifiedName,
    columns: Sequence[Column],
    tracking: Tracking | None = None,
) -> Applied:
    """Delete and insert the weighted rows of the result, and count both."""
    connection.execute(_OPEN_GUARD, [name.sql])
    names = ", ".join(quote_identifier(column.name) for column in columns)
    expected = connection.execute(
        f"SELECT COALESCE(sum(-{WEIGHT}), 0) FROM {_RESULT} WHERE {WEIGHT} < 0".encode()
    ).fetchone()
    deleted = 0
    if expected is not None and expected[0]:
        deletes, rows = _delete(name, columns)
        if tracking is not None:
            gone = f"{rows}\nRETURNING {tracking.returning('stored')}"
            rows = f", deleted AS (\n{gone}\n)\nINSERT INTO {tracking.deleted} TABLE deleted"
        deleted = connection.execute(f"{deletes}{rows}".encode()).rowcount
        if deleted != expected[0]:
            raise ContentsDivergedError(
                f'"{name}" holds {deleted} of {expected[0]} rows that are to be deleted',
                detail="Something other than a refresh wrote to the stream table.",
                hint=f"Rebuild it with: pgtrickle refresh {name} --full.",
            )
    inserts = (
        f"INSERT INTO {name.sql} AS stored ({names})\n"
        f"SELECT {names} FROM {_RESULT}, pg_catalog.generate_series(1, {WEIGHT}) WHERE {WEIGHT} > 0"
    )
    if tracking is not None:
        new = f"{inserts}\nRETURNING {tracking.returning('stored')}"
        inserts = f"WITH new AS (\n{new}\n)\nINSERT INTO {tracking.inserted} TABLE new"
    inserted = connection.execute(inserts.encode()).rowcount
    return Applied(inserted, deleted)


def _delete(name: QualifiedName, columns: Sequence[Column]) -> tuple[str, str]:
    """Write how to find each row as often as its weight says, by index, and how to delete it."""
    found = (
        f"WITH gone AS MATERIALIZED (\n"
        f"  SELECT row_number() OVER () AS __number, r.* FROM {_RESULT} AS r WHERE {WEIGHT} < 0\n"
        f"), found AS MATERIALIZED (\n"
        f"  SELECT stored.ctid AS __row, gone.{WEIGHT},\n"
        f"         row_number() OVER (PARTITION BY gone.__number) AS __copy\n"
        f"    FROM gone JOIN {name.sql} AS stored ON {same_row(columns, 'stored', 'gone')}\n"
        f")\n"
    )
    delete = (
        f"DELETE FROM {name.sql} AS stored USING found\n"
        f" WHERE stored.ctid = found.__row AND found.__copy <= -found.{WEIGHT}"
    )
    return found, delete


_STORED_COLUMNS = """
    SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = pg_catalog.to_regclass(%(name)s) AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum
"""


def stored_columns(connection: Connection, name: QualifiedName) -> list[tuple[str, str]]:
    """Return the names and types of the user's table as it stands."""
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        return connection.execute(_STORED_COLUMNS, {"name": name.sql}).fetchall()
