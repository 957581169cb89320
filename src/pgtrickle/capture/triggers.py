"""Triggers that copy a source's changes into its buffer.

**Order matters.**  ``install_capture`` must be committed before the first snapshot of a stream
table is taken.  Creating the triggers waits for every active writer, and writers that come later
fire them; so the buffer holds every change that the snapshot does not see.  In the other order a
writer that began before the triggers and commits after the snapshot is in neither.

PostgreSQL fires the statement triggers of the table that a statement names, with all the rows it
changed, in partitions and child tables too.  So each table of a source's tree has its triggers,
and each change is captured once, whichever table the statement named.  Where a source has a
parent, or is written by logical replication, row triggers replace them.

The functions run as their owner: a writer needs no right on pgtrickle's schemas.  They ask for the
transaction id once per row, so a statement that touches no row assigns none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import (
    BUFFER_SCHEMA,
    buffer_of,
    change_buffer_columns,
    create_buffer,
    drop_buffer,
    list_buffer_columns,
    loosen_buffer,
)
from pgtrickle.capture.function_head import PAUSED, Options, get_options
from pgtrickle.capture.functions import EVENTS, Buffer, Event, function_text
from pgtrickle.capture.locks import forget_locks, lock_capture, try_lock_capture
from pgtrickle.capture.sources import Member, Source, get_source
from pgtrickle.capture.unknown_partitions import (
    create_newcomer_triggers,
    newcomers_function,
    watches_newcomers,
    write_newcomers_function,
)
from pgtrickle.errors import CapturePausedError
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class Capture:
    """An installed capture: the buffer of a source, and the captured columns."""

    source_relid: int
    source: QualifiedName
    buffer: QualifiedName
    columns: tuple[str, ...]


_CREATE_FUNCTION = sql.SQL("""
    CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0
    AS {source_text}
""")
_REVOKE_FUNCTION = sql.SQL("REVOKE ALL ON FUNCTION {function}() FROM PUBLIC")
_CREATE_TRIGGER = sql.SQL("""
    CREATE OR REPLACE TRIGGER {trigger} AFTER {event} ON {table} {how}
    EXECUTE FUNCTION {function}()
""")
# Also under session_replication_role = replica, which loading tools set. Only an owner may.
_ENABLE_ALWAYS = sql.SQL("ALTER TABLE ONLY {table} ENABLE ALWAYS TRIGGER {trigger}")


def install_capture(
    connection: Connection[TupleRow], relid: int, columns: Sequence[str]
) -> Capture:
    """Capture ``columns`` of a table, in addition to the captured ones; also repairs and widens.

    Needs READ COMMITTED.  Takes SHARE ROW EXCLUSIVE on the source until the caller commits: it
    waits for active writers and holds back new ones, so commit at once.
    """
    lock_capture(connection, relid)
    # CREATE TRIGGER takes the lock, and unlike LOCK TABLE it asks for no privilege but TRIGGER.
    # The table is read before, to know what to create, and again under the lock.
    source = get_source(connection, relid, columns)
    if get_options(connection, relid).paused:
        raise CapturePausedError(
            f'the capture of "{source.name}" is paused',
            hint="Resume it with: pgtrickle cdc resume.",
        )
    wanted = _wanted(connection, source, columns)
    if list_buffer_columns(connection, relid) is None:
        create_buffer(connection, relid, [source.columns[name] for name in wanted])
    _create_triggers(connection, source, wanted)
    locked = get_source(connection, relid, columns)
    if locked != source:
        source, wanted = locked, _wanted(connection, locked, columns)
        _create_triggers(connection, source, wanted)
    _fit_buffer(connection, source, wanted)
    kept = [name for _, _, name in _triggers(source)]
    if watches_newcomers(source):
        create_newcomer_triggers(connection, source)
        kept.append(newcomers_function(relid))
    _drop_functions(connection, relid, keep=kept)
    return Capture(relid, source.name, buffer_of(relid), wanted)


def renew_capture(connection: Connection[TupleRow], relid: int) -> bool:
    """Renew the capture functions of a table that was altered; takes no lock on the table.

    The captured columns stay the same: a dropped column stays in the buffer until
    ``install_capture`` runs.  Does nothing and returns False while another process changes the
    capture.
    """
    if not try_lock_capture(connection, relid):
        return False
    options = get_options(connection, relid)
    if options.paused:
        return False
    source = get_source(connection, relid, ())
    loosen_buffer(connection, relid)
    present = list_buffer_columns(connection, relid) or {}
    columns = [
        name
        for name, column in source.columns.items()
        if name in present and present[name] == column.type
    ]
    written = _list_functions(connection, relid)
    buffer = _describe_buffer(connection, source, columns)
    for member, event, name in _triggers(source):
        if name in written:
            _create_function(connection, source, member, event, name, buffer, options)
    if newcomers_function(relid) in written:
        write_newcomers_function(connection, relid)
    return True


def pause_capture(connection: Connection[TupleRow], relid: int) -> None:
    """Make the capture functions of a source do nothing; takes no lock on the source.

    It holds for every session from its next statement on.  ``install_capture`` ends it and
    waits for the writers that were not captured.
    """
    lock_capture(connection, relid)
    for name in _list_functions(connection, relid):
        _write_function(connection, name, PAUSED, for_everyone=name == newcomers_function(relid))


def _wanted(
    connection: Connection[TupleRow], source: Source, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the requested columns and those captured for other consumers, in the table's order."""
    union = set(columns) | (list_buffer_columns(connection, source.relid) or {}).keys()
    return tuple(name for name in source.columns if name in union)


def _fit_buffer(connection: Connection[TupleRow], source: Source, wanted: Sequence[str]) -> None:
    present = list_buffer_columns(connection, source.relid) or {}
    loosen_buffer(connection, source.relid)
    # A column whose type changed is captured from now on: every consumer of it must load again.
    stale = [
        name
        for name, type_ in present.items()
        if name not in source.columns or source.columns[name].type != type_
    ]
    new = [source.columns[name] for name in wanted if name not in present or name in stale]
    change_buffer_columns(connection, source.relid, add=new, drop=stale)


def _triggers(source: Source) -> Iterator[tuple[Member, Event, str]]:
    """Yield the triggers of a source, each with the name of its function."""
    for member in source.members:
        for event in EVENTS:
            if member.stores_rows or not source.by_row or not event.images:
                own = "" if member.relid == source.relid else f"_{member.relid:d}"
                yield member, event, f"capture_{source.relid:d}{own}_{event.name}"


def _create_triggers(
    connection: Connection[TupleRow], source: Source, columns: Sequence[str]
) -> None:
    buffer = _describe_buffer(connection, source, columns)
    options = get_options(connection, source.relid)
    for member, event, function in _triggers(source):
        _create_function(connection, source, member, event, function, buffer, options)
        table = sql.Identifier(member.name.schema, member.name.name)
        own = "" if member.relid == source.relid else f"_{source.relid:d}"
        trigger = sql.Identifier(f"pgtrickle_capture{own}_{event.name}")
        by_row = source.by_row and event.images
        how = sql.SQL("FOR EACH ROW") if by_row else _for_each_statement(event)
        connection.execute(
            _CREATE_TRIGGER.format(
                trigger=trigger,
                event=sql.SQL(event.name.upper()),
                table=table,
                how=how,
                function=sql.Identifier(BUFFER_SCHEMA, function),
            )
        )
        if member.owned:
            connection.execute(_ENABLE_ALWAYS.format(table=table, trigger=trigger))


def _for_each_statement(event: Event) -> sql.Composed:
    return sql.SQL("{} FOR EACH STATEMENT").format(event.transition_tables)


def _create_function(
    connection: Connection[TupleRow],
    source: Source,
    member: Member,
    event: Event,
    name: str,
    buffer: Buffer,
    options: Options,
) -> None:
    text = function_text(
        event,
        member,
        buffer,
        by_row=source.by_row,
        source_relid=source.relid,
        options=options,
    )
    _write_function(connection, name, text)


def _write_function(
    connection: Connection[TupleRow],
    name: str,
    text: sql.Composable,
    *,
    for_everyone: bool = False,
) -> None:
    function = sql.Identifier(BUFFER_SCHEMA, name)
    source_text = sql.Literal(text.as_string(connection))
    connection.execute(_CREATE_FUNCTION.format(function=function, source_text=source_text))
    if not for_everyone:
        connection.execute(_REVOKE_FUNCTION.format(function=function))


# Whether any type these columns can get without a new file can be assigned back: xml is the only
# one of PostgreSQL's own that cannot, it becomes text as it stands.  And how long a row can become:
# a value of varying length that is not stored elsewhere takes up to 24 bytes, and 7 to align it.
_DESCRIBE = """
    SELECT pg_catalog.to_regclass(%(buffer)s)::pg_catalog.oid,
           NOT EXISTS (
               SELECT FROM pg_catalog.pg_cast AS c
                WHERE c.castsource = ANY(%(types)s::pg_catalog.oid[]) AND c.castmethod = 'b'
                  AND NOT EXISTS (
                          SELECT FROM pg_catalog.pg_cast AS back
                           WHERE back.castsource = c.casttarget AND back.casttarget = c.castsource
                             AND back.castcontext IN ('a', 'i'))),
           (SELECT pg_catalog.count(*) / 8
                   + pg_catalog.sum(CASE WHEN t.typlen > 0 THEN t.typlen ELSE 24 END + 7)
              FROM pg_catalog.unnest(%(types)s::pg_catalog.oid[]) AS one (type)
              JOIN pg_catalog.pg_type AS t ON t.oid = one.type)
"""
# What a page has for one row, less the two columns that every buffer adds, and some.
_ROW_BYTES = 8000


def _describe_buffer(
    connection: Connection[TupleRow], source: Source, columns: Sequence[str]
) -> Buffer:
    """Describe the buffer of a source for its capture functions."""
    name = buffer_of(source.relid)
    types = [member.columns[one][1] for member in source.members[:1] for one in columns]
    [(relid, exact, longest)] = connection.execute(
        _DESCRIBE, {"buffer": name.sql, "types": types}
    ).fetchall()
    return Buffer(relid or 0, name, columns, exact, (longest or 0) <= _ROW_BYTES)


_LIST_FUNCTIONS = """
    SELECT p.proname
      FROM pg_catalog.pg_proc AS p
      JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
     WHERE n.nspname = 'pgtrickle_changes'
       AND pg_catalog.starts_with(p.proname, %(prefix)s)
"""
_DROP_FUNCTION = sql.SQL("DROP FUNCTION IF EXISTS {function}() CASCADE")


def _list_functions(connection: Connection[TupleRow], relid: int) -> list[str]:
    cursor = connection.execute(_LIST_FUNCTIONS, {"prefix": f"capture_{relid:d}_"})
    return [name for (name,) in cursor]


def _drop_functions(
    connection: Connection[TupleRow], relid: int, *, keep: Sequence[str] = ()
) -> None:
    """Drop functions of a capture and the triggers with them.

    Dropping a trigger by name would need ownership of the table.
    """
    for name in _list_functions(connection, relid):
        if name not in keep:
            connection.execute(_DROP_FUNCTION.format(function=sql.Identifier(BUFFER_SCHEMA, name)))


def drop_capture(connection: Connection[TupleRow], relid: int) -> None:
    """Remove triggers, functions and buffer of a source, whether or not it still exists.

    Takes ACCESS EXCLUSIVE on the source until the caller commits.
    """
    lock_capture(connection, relid)
    _drop_functions(connection, relid)
    drop_buffer(connection, relid)
    forget_locks(connection, relid)
