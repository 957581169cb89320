"""Apply a weighted result to the user's table: delete and insert exactly those rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.algebra.nodes import Output, Scalar
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.errors import ContentsDivergedError
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.counted import identities, representatives
from pgtrickle.storage.definitions import column_definitions
from pgtrickle.storage.identity import identical_row, row_hash
from pgtrickle.storage.tracking import Tracking

RESULT = '"result__changes"'
_GUARD = "pgtrickle_guard"
_MANY_ROWS = 10_000  # in the order of the index, they touch each of its pages once
_OPEN_GUARD = "SELECT pgtrickle.open_guard(%s::pg_catalog.regclass)"


@dataclass(frozen=True, slots=True)
class Applied:
    """How many rows a refresh wrote."""

    inserted: int
    deleted: int


def create_table(connection: Connection, name: QualifiedName, columns: Sequence[Column]) -> None:
    """Create the user's table with exactly the query's columns, and its guard.

    The index that finds a row is created after the first rows: building it over them takes a
    fraction of the time of maintaining it row by row.
    """
    listed = column_definitions(columns)
    connection.execute(trusted(f"CREATE TABLE {name.sql} ({listed})"))
    ensure_guard(connection, name)


_HAS_GUARD = """
    SELECT FROM pg_catalog.pg_trigger AS t
     WHERE t.tgrelid = pg_catalog.to_regclass(%(name)s) AND t.tgname = %(guard)s
       AND t.tgenabled <> 'D'
"""


def ensure_guard(connection: Connection, name: QualifiedName) -> bool:
    """Create the guard of a stream table if it is missing or disabled; return whether it was."""
    if connection.execute(_HAS_GUARD, {"name": name.sql, "guard": _GUARD}).fetchone() is not None:
        return False
    connection.execute(
        trusted(
            f"CREATE OR REPLACE TRIGGER {_GUARD}"
            f" BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {name.sql}"
            " FOR EACH STATEMENT EXECUTE FUNCTION pgtrickle.refuse_write()"
        )
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
    """Create the index that finds a row by its hash, unless it exists; blocks no reader."""
    [(there,)] = connection.execute(_HAS_ROW_INDEX, {"name": name.sql}).fetchall()
    if not there:
        with building_memory(connection):
            connection.execute(trusted(f"CREATE INDEX ON {name.sql} ({row_hash(columns)})"))


_BUILDING_MEMORY = "256MB"
_RAISE_MEMORY = """
    SELECT s.setting || 'kB', pg_catalog.set_config('maintenance_work_mem', %(wanted)s, true)
      FROM pg_catalog.pg_settings AS s
     WHERE s.name = 'maintenance_work_mem'
       AND s.setting::pg_catalog.int8 * 1024 < pg_catalog.pg_size_bytes(%(wanted)s)
"""
_SET_MEMORY = "SELECT pg_catalog.set_config('maintenance_work_mem', %s, true)"


@contextmanager
def building_memory(connection: Connection) -> Iterator[None]:
    """Give the building of an index over many rows the memory that keeps its sort in one piece."""
    with connection.transaction():
        found = connection.execute(_RAISE_MEMORY, {"wanted": _BUILDING_MEMORY}).fetchall()
        yield
        for before, _ in found:
            connection.execute(_SET_MEMORY, [before])


_IS_OUTDATED = """
    SELECT c.reltuples < %(changed)s * 10 FROM pg_catalog.pg_class AS c
     WHERE c.oid = pg_catalog.to_regclass(%(name)s)
"""


def is_outdated(connection: Connection, name: QualifiedName, applied: Applied) -> bool:
    """Tell whether so many rows changed, a tenth of all, that PostgreSQL should look at them."""
    values = {"name": name.sql, "changed": max(applied.inserted, applied.deleted)}
    return bool(connection.execute(_IS_OUTDATED, values).fetchall()[0][0])


_LIST_ROW_INDEXES = """
    SELECT i.indexrelid::pg_catalog.regclass::pg_catalog.text
      FROM pg_catalog.pg_index AS i
     WHERE i.indrelid = pg_catalog.to_regclass(%(name)s)
       AND pg_catalog.pg_get_indexdef(i.indexrelid) LIKE '%%hash_record_extended(%%'
"""


def drop_row_index(connection: Connection, name: QualifiedName) -> None:
    """Drop the index that finds a row, because the rows will have other columns."""
    for (index,) in connection.execute(_LIST_ROW_INDEXES, {"name": name.sql}).fetchall():
        connection.execute(trusted(f"DROP INDEX {index}"))


def load_result(
    connection: Connection,
    name: QualifiedName,
    outputs: Sequence[Output],
    source: str,
    condition: Scalar | None,
    *,
    weight: str,
) -> Applied | None:
    """Fill an empty table directly from weighted rows; None if that is not enough.

    As long as no weight is negative there is nothing to subtract and nothing to consolidate, so
    the rows need neither be grouped nor stored a second time.
    """
    where = f" WHERE {condition.sql}" if condition else ""
    [(filled,)] = connection.execute(trusted(f"SELECT EXISTS (SELECT FROM {name.sql})")).fetchall()
    if filled:
        return None
    least, most = 1, 1
    if weight == WEIGHT:
        [(least, most)] = connection.execute(
            trusted(f"SELECT min({WEIGHT}), max({WEIGHT}) FROM {source}{where}")
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
    inserted = connection.execute(trusted(f"INSERT INTO {name.sql} ({names})\n{rows}")).rowcount
    return Applied(inserted, 0)


def _computed(output: Output) -> str:
    """Write an output of the outermost projection in the column type of the user's table."""
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

    ``source`` is a relation of weighted rows.  With ``less``, the present rows of that table are
    subtracted, so that only the difference remains.
    """
    rows = write_result(outputs, source, condition, weight=weight, less=less)
    statement = f"CREATE TEMPORARY TABLE {RESULT} ON COMMIT DROP AS\n{rows}"
    connection.execute(trusted(statement))


def write_result(
    outputs: Sequence[Output],
    source: str,
    condition: Scalar | None,
    *,
    weight: str,
    less: QualifiedName | None = None,
) -> str:
    """Write the query for the consolidated rows of the outermost projection."""
    names = [quote_identifier(output.name) for output in outputs]
    computed = ", ".join(_computed(output) for output in outputs)
    where = f" WHERE {condition.sql}" if condition else ""
    rows = f"SELECT {computed}, {weight} AS {WEIGHT} FROM {source}{where}"
    if less is not None:
        rows += f"\nUNION ALL SELECT {', '.join(names)}, -1 FROM {less.sql}"
    columns = [output.column for output in outputs]
    return (
        f"SELECT {representatives(columns)}sum({WEIGHT})::bigint AS {WEIGHT}\n"
        f"  FROM (\n{rows}\n) AS rows\n"
        f" GROUP BY {', '.join(identities(columns))} HAVING sum({WEIGHT}) <> 0"
    )


@dataclass(frozen=True, slots=True)
class Places:
    """How the rows of a stream table are to become those of another table: by their places.

    Each is the query for an array.
    """

    source: str  # the relation with the rows to be inserted
    added: str
    removed: str


def apply_result(
    connection: Connection,
    name: QualifiedName,
    columns: Sequence[Column],
    tracking: Tracking | None = None,
) -> Applied:
    """Delete and insert the weighted rows of the result, and count both."""
    [(gone, new)] = connection.execute(
        trusted(
            f"SELECT COALESCE(-sum({WEIGHT}) FILTER (WHERE {WEIGHT} < 0), 0),"
            f" count(*) FILTER (WHERE {WEIGHT} > 0) FROM {RESULT}"
        )
    ).fetchall()
    deletes = write_delete(name, columns, RESULT)
    inserts = write_insert(name, columns, RESULT)
    return _apply(connection, name, columns, (deletes, gone), (inserts, new), tracking)


def apply_places(
    connection: Connection,
    name: QualifiedName,
    columns: Sequence[Column],
    places: Places,
    tracking: Tracking | None = None,
) -> Applied:
    """Delete the rows at the places, and insert those of the other table."""
    [(gone, new)] = connection.execute(
        trusted(
            f"SELECT COALESCE(cardinality(({places.removed})::tid[]), 0),"
            f" COALESCE(cardinality(({places.added})::tid[]), 0)"
        )
    ).fetchall()
    deletes = _write_delete_at(name, places.removed)
    inserts = _write_insert_from(name, columns, places)
    return _apply(connection, name, columns, (deletes, gone), (inserts, new), tracking)


def _apply(
    connection: Connection,
    name: QualifiedName,
    columns: Sequence[Column],
    deleting: tuple[tuple[str, str], int],
    inserting: tuple[str, int],
    tracking: Tracking | None,
) -> Applied:
    """Run the two statements, each with the number of rows that it has to find."""
    connection.execute(_OPEN_GUARD, [name.sql])
    (deletes, rows), expected = deleting
    deleted = 0
    if expected:
        if tracking is not None:
            gone = f"{rows}\nRETURNING {tracking.returning('stored')}"
            rows = f", deleted AS (\n{gone}\n)\nINSERT INTO {tracking.deleted} TABLE deleted"
        deleted = connection.execute(trusted(f"{deletes}{rows}")).rowcount
        if deleted != expected:
            raise ContentsDivergedError(
                f'"{name}" holds {deleted} of {expected} rows that are to be deleted',
                detail="Something other than a refresh wrote to the stream table.",
                hint=f"Rebuild it with: pgtrickle refresh {name} --full.",
            )
    inserts, new = inserting
    if new >= _MANY_ROWS:
        inserts += f"\n ORDER BY {row_hash(columns)}"
    if tracking is not None:
        added = f"{inserts}\nRETURNING {tracking.returning('stored')}"
        inserts = f"WITH new AS (\n{added}\n)\nINSERT INTO {tracking.inserted} TABLE new"
    inserted = connection.execute(trusted(inserts)).rowcount
    return Applied(inserted, deleted)


def write_insert(name: QualifiedName, columns: Sequence[Column], rows: str) -> str:
    """Write the statement that inserts each row as often as its weight says."""
    names = ", ".join(quote_identifier(column.name) for column in columns)
    return (
        f"INSERT INTO {name.sql} AS stored ({names})\n"
        f"SELECT {names} FROM {rows}, pg_catalog.generate_series(1, {WEIGHT}) WHERE {WEIGHT} > 0"
    )


def write_update(
    name: QualifiedName,
    outputs: Sequence[Output],
    fixed: Collection[str],
    rows: str,
    versions: tuple[str, str],
) -> str:
    """Write the statement that makes old rows new ones, found by index; ``fixed`` stay the same.

    ``versions`` are the queries for the old and the new row over one of ``rows``.
    """
    before, after = (
        f"LATERAL (SELECT {', '.join(map(_computed, outputs))} FROM ({version}) AS shown)"
        for version in versions
    )
    names = [(quote_identifier(one.name), f"__new_{n}") for n, one in enumerate(outputs)]
    both = ", ".join(f"before.{name}, after.{name} AS {new}" for name, new in names)
    changed = [
        f"{name} = d.{new}"
        for (name, new), one in zip(names, outputs, strict=True)
        if one.name not in fixed
    ]
    columns = [one.column for one in outputs]
    return (
        f"UPDATE {name.sql} AS stored SET {', '.join(changed)}\n"
        f"  FROM (SELECT {both}\n"
        f"          FROM {rows} AS t,\n{before} AS before,\n{after} AS after) AS d\n"
        f" WHERE {identical_row(columns, 'stored', 'd')}"
    )


def write_delete(name: QualifiedName, columns: Sequence[Column], rows: str) -> tuple[str, str]:
    """Write the statement that deletes each row as often as its weight says, found by index.

    In two parts: the end of the first is where another part of the WITH can follow.
    """
    found = (
        f"WITH gone AS MATERIALIZED (\n"
        f"  SELECT row_number() OVER () AS __number, r.* FROM {rows} AS r WHERE {WEIGHT} < 0\n"
        f"), found AS MATERIALIZED (\n"
        f"  SELECT stored.ctid AS __row, gone.{WEIGHT},\n"
        f"         row_number() OVER (PARTITION BY gone.__number) AS __copy\n"
        f"    FROM gone JOIN {name.sql} AS stored ON {identical_row(columns, 'stored', 'gone')}\n"
        f")\n"
    )
    delete = (
        f"DELETE FROM {name.sql} AS stored USING found\n"
        f" WHERE stored.ctid = found.__row AND found.__copy <= -found.{WEIGHT}"
    )
    return found, delete


def _write_delete_at(name: QualifiedName, places: str) -> tuple[str, str]:
    """Write the statement that deletes the rows at known places, in the same two parts."""
    found = f"WITH found (places) AS (\n{places}\n)"
    return found, (
        f"\nDELETE FROM ONLY {name.sql} AS stored"
        f" WHERE stored.ctid = ANY ((SELECT f.places FROM found AS f)::tid[])"
    )


def _write_insert_from(name: QualifiedName, columns: Sequence[Column], places: Places) -> str:
    """Write the statement that inserts the rows at known places of another table.

    PostgreSQL sorts an array of places and reads each page once; joined to a table, they would be
    looked for among all of its rows.
    """
    names = ", ".join(quote_identifier(column.name) for column in columns)
    return (
        f"INSERT INTO {name.sql} AS stored ({names})\n"
        f"SELECT {names} FROM {places.source} AS source"
        f" WHERE source.ctid = ANY (({places.added})::tid[])"
    )


_STORED_COLUMNS = """
    SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod)
      FROM pg_catalog.pg_attribute AS a
     WHERE a.attrelid = pg_catalog.to_regclass(%(name)s) AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY a.attnum
"""


def stored_columns(connection: Connection, name: QualifiedName) -> list[tuple[str, str]]:
    """Return the present column names and types of the user's table."""
    with connection.transaction():
        connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
        return connection.execute(_STORED_COLUMNS, {"name": name.sql}).fetchall()
