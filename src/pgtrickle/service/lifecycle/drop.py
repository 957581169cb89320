"""``drop_stream_table``: remove a stream table with everything that served it."""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import Connection

from pgtrickle.binding.dependents import list_dependent_objects
from pgtrickle.catalog.dependencies import list_dependents
from pgtrickle.catalog.shadows.builds import shadow_name
from pgtrickle.catalog.stream_tables import (
    delete_stream_table,
    find_stream_table,
    get_stream_table,
)
from pgtrickle.errors import DependentsExistError
from pgtrickle.immediate.install import drop_immediate
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.capturing.sources import release_sources
from pgtrickle.service.capturing.wal_slot import drop_unused_slot
from pgtrickle.service.lifecycle.snapshots.drop import forget_snapshots
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.entry import disable_sinks, end_copies
from pgtrickle.service.sinks.kind import Ending
from pgtrickle.storage.state_tables import drop_state_tables


def drop_stream_table(runtime: Runtime, name: QualifiedName, *, cascade: bool) -> list[str]:
    """Drop a stream table, with ``cascade`` also all that reads it; return what went.

    That is the names of stream tables, and before them other objects with their kind, as in
    ``view public.v``.  The stream table itself comes last.
    """
    with runtime.connection() as connection:

        def transaction() -> tuple[list[StreamTable], list[str], list[Ending]]:
            stream_table = get_stream_table(connection, name)
            going = _list_going(connection, stream_table)
            for one in going if cascade else going[-1:]:
                check_owner(connection, one)
            # Nobody asked for their shadows, which are of no use without them.
            shadows = [one for one in _list_shadows(connection, going) if one not in going]
            everything = [*shadows, *going]
            tables = {
                one.name: relid for one in everything if (relid := find_table(connection, one))
            }
            objects = list_dependent_objects(connection, tables.values())
            if not cascade and (objects or len(going) > 1):
                raise _refuse(stream_table, going[:-1], objects)
            for one in going:
                if one.refresh_mode is RefreshMode.IMMEDIATE:
                    drop_immediate(connection, one.id)
            for one in everything:
                if one.name in tables and not _lock(connection, one):
                    del tables[one.name]
            objects = list_dependent_objects(connection, tables.values())  # no more come now
            endings: list[Ending] = []
            for one in everything:
                endings += disable_sinks(connection, one, drop=True)
                forget_snapshots(connection, one.id)
                delete_stream_table(connection, one.id)
                drop_state_tables(connection, one.id)
            _drop_tables(connection, stream_table, list(tables), cascade=cascade)
            release_sources(connection)
            for one in shadows:
                runtime.remembered.forget(one)
            return going, objects, endings

        gone, objects, endings = until_free(runtime, connection, transaction)
    for one in gone:
        runtime.remembered.forget(one)
    end_copies(endings)
    drop_unused_slot(runtime)
    return [*objects, *(str(one.name) for one in gone)]


def _list_going(connection: Connection, stream_table: StreamTable) -> list[StreamTable]:
    """Return a stream table and all that read it, directly or not, the last of them first."""
    found: dict[int, StreamTable] = {}

    def visit(one: StreamTable) -> None:
        # A diamond reaches a table twice, and a circle comes back to where it began.
        seen.add(one.id)
        for dependent in list_dependents(connection, one.relid):
            if dependent.id not in seen:
                visit(dependent)
        found[one.id] = one

    seen: set[int] = set()
    visit(stream_table)
    return list(found.values())


def _list_shadows(connection: Connection, going: Sequence[StreamTable]) -> list[StreamTable]:
    names = [shadow_name(one.id) for one in going]
    return [found for one in names if (found := find_stream_table(connection, one)) is not None]


def _refuse(
    stream_table: StreamTable, readers: Sequence[StreamTable], objects: Sequence[str]
) -> DependentsExistError:
    name = stream_table.name
    what = "other stream tables read" if readers else "other objects depend on"
    return DependentsExistError(
        f'{what} "{name}"',
        detail=", ".join([*(str(one.name) for one in readers), *objects]),
        hint=f"Drop them first, or all with: pgtrickle drop {name} --cascade.",
    )


# Something else may have the name of a table that is gone.
_FIND = """
    SELECT c.oid
      FROM pg_catalog.pg_class AS c
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
      JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_schema = n.nspname AND s.pgt_name = c.relname
     WHERE s.pgt_id = %(id)s
       AND (c.oid = s.pgt_relid OR NOT pgtrickle.lies_here(s.frontier) AND c.relkind = 'r')
"""


def find_table(connection: Connection, stream_table: StreamTable) -> int | None:
    """Return the oid of the table of a stream table; None if it has none any more."""
    row = connection.execute(_FIND, {"id": stream_table.id}).fetchone()
    return None if row is None else int(row[0])


def _lock(connection: Connection, stream_table: StreamTable) -> bool:
    """Let nobody rename the table or make a view of it; tell whether it is still there."""
    lock = f"LOCK TABLE ONLY {stream_table.name.sql} IN ACCESS EXCLUSIVE MODE"
    try:
        with connection.transaction():
            connection.execute(trusted(lock))
    except psycopg.errors.UndefinedTable:
        return False
    return find_table(connection, stream_table) is not None


def _drop_tables(
    connection: Connection,
    stream_table: StreamTable,
    names: Sequence[QualifiedName],
    *,
    cascade: bool,
) -> None:
    if not names:
        return
    listed, how = ", ".join(one.sql for one in names), "CASCADE" if cascade else "RESTRICT"
    try:
        with connection.transaction():
            connection.execute(trusted(f"DROP TABLE {listed} {how}"))
    except psycopg.errors.DependentObjectsStillExist as error:
        raise DependentsExistError(
            f'other objects depend on "{stream_table.name}"',
            detail=error.diag.message_detail or "",
            hint=f"Drop them first, or all with: pgtrickle drop {stream_table.name} --cascade.",
        ) from error
