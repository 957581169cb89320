"""Create, replace and drop what lets writers maintain a stream table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.immediate.blueprint import SCHEMA, Blueprint
from pgtrickle.immediate.functions import Design, design
from pgtrickle.immediate.undisturbed import record_stamp
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted

_FIND_GENERATION = "SELECT generation FROM pgtrickle.pgt_immediate WHERE pgt_id = %(id)s"
_RECORD = """
    INSERT INTO pgtrickle.pgt_immediate AS i
        (pgt_id, lock_mode, lock_reason, generation, max_rows, excess)
    VALUES (%(id)s, %(mode)s, %(reason)s, %(generation)s, %(max_rows)s, %(excess)s)
        ON CONFLICT (pgt_id) DO UPDATE
       SET lock_mode = excluded.lock_mode, lock_reason = excluded.lock_reason,
           generation = excluded.generation, max_rows = excluded.max_rows,
           excess = excluded.excess
"""
_RECORD_TURNS = """
    WITH gone AS (
        DELETE FROM pgtrickle.pgt_immediate_turns
         WHERE pgt_id = %(id)s AND slot <> ALL (%(slots)s::pg_catalog.int4[])
    )
    INSERT INTO pgtrickle.pgt_immediate_turns (pgt_id, slot)
    SELECT %(id)s, slot FROM pg_catalog.unnest(%(slots)s::pg_catalog.int4[]) AS s (slot)
        ON CONFLICT DO NOTHING
"""
_FORGET_SOURCES = "DELETE FROM pgtrickle.pgt_immediate_sources WHERE pgt_id = %(id)s"
_RECORD_SOURCE = """
    INSERT INTO pgtrickle.pgt_immediate_sources (pgt_id, source_relid, columns, shape)
    VALUES (%(id)s, %(relid)s, %(columns)s,
            (pgtrickle.describe_immediate_shape(%(relid)s, %(columns)s)
             || COALESCE(pgtrickle.describe_files(%(relid)s), ''))::pg_catalog.text)
"""
_FORGET_OPEN = "DELETE FROM pgtrickle.pgt_immediate_open WHERE pgt_id = %(id)s"
_LIST_FUNCTIONS = """
    SELECT p.oid::pg_catalog.regprocedure::pg_catalog.text
      FROM pg_catalog.pg_proc AS p
     WHERE p.pronamespace = 'pgtrickle_state'::pg_catalog.regnamespace
       AND p.proname ~ %(pattern)s
"""
_LIST_CALLED_BY_OTHERS = """
    SELECT p.oid::pg_catalog.regprocedure::pg_catalog.text
      FROM pg_catalog.pg_proc AS p
     WHERE p.pronamespace = 'pgtrickle_state'::pg_catalog.regnamespace
       AND p.proname ~ %(pattern)s
       AND EXISTS (SELECT FROM pg_catalog.pg_trigger AS t
                    WHERE t.tgfoid = p.oid AND NOT t.tgisinternal
                      AND t.tgname <> ALL (%(names)s::pg_catalog.text[]))
"""
_LIST_TYPES = """
    SELECT c.relname FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = 'pgtrickle_state'::pg_catalog.regnamespace
       AND c.relkind = 'c' AND c.relname ~ %(pattern)s
"""
_HAS_TRIGGERS = """
    SELECT pg_catalog.count(*) FROM pg_catalog.pg_trigger AS t
     WHERE t.tgname = ANY (%(names)s::pg_catalog.text[]) AND t.tgenabled <> 'D'
"""


@dataclass(frozen=True, slots=True)
class Excess:
    """What becomes of a statement that changes more rows than are followed."""

    max_rows: int
    then: str


def install_immediate(
    connection: Connection, blueprint: Blueprint, excess: Excess, owner: str
) -> None:
    """Create functions and triggers, and lock the sources against writers until the commit.

    The stream table is ready for writers only when ``mark_ready`` has said so.
    """
    wanted = design(blueprint)
    row = connection.execute(_FIND_GENERATION, {"id": blueprint.id}).fetchone()
    if row is None or row[0] != wanted.generation:
        _drop_old(connection, blueprint.id, wanted)
        _create(connection, blueprint, wanted, owner)
    else:
        # What somebody dropped is created again.
        _create_tables(connection, blueprint, wanted)
    locking = blueprint.locking
    values = {
        "id": blueprint.id,
        "mode": locking.mode.value,
        "reason": locking.reason,
        "generation": wanted.generation,
        "max_rows": excess.max_rows,
        "excess": excess.then,
    }
    connection.execute(_RECORD, values)
    connection.execute(_RECORD_TURNS, {"id": blueprint.id, "slots": list(locking.slots)})
    # Last, because it locks the sources.  Those who write them lock the stream table after them.
    for trigger in sorted(wanted.triggers, key=lambda one: (str(one.table), one.name)):
        connection.execute(trusted(trigger.sql))
        if trigger.owned:
            enable = f"ALTER TABLE ONLY {trigger.table.sql} ENABLE ALWAYS TRIGGER {trigger.name}"
            connection.execute(trusted(enable))
    connection.execute(_FORGET_SOURCES, {"id": blueprint.id})
    for relid, columns in sorted(blueprint.used.items()):
        found = {"id": blueprint.id, "relid": relid, "columns": list(columns)}
        connection.execute(_RECORD_SOURCE, found)
    # The stream table, too, may be renamed, or dropped by someone.
    names = [column.name for column in blueprint.columns]
    own = {"id": blueprint.id, "relid": blueprint.relid, "columns": names}
    connection.execute(_RECORD_SOURCE, own)
    record_stamp(connection, blueprint)
    for table, _ in wanted.tables:
        connection.execute(trusted(f"DELETE FROM {table}"))
    # Of statements during which it became not ready: none is running now.
    connection.execute(_FORGET_OPEN, {"id": blueprint.id})


def is_installed(connection: Connection, stream_table_id: int) -> bool:
    """Tell whether a stream table has its functions and triggers."""
    return connection.execute(_FIND_GENERATION, {"id": stream_table_id}).fetchone() is not None


def _create(connection: Connection, blueprint: Blueprint, wanted: Design, owner: str) -> None:
    for name, definition in wanted.types:
        connection.execute(trusted(f"CREATE TYPE {name} AS ({definition})"))
    _create_tables(connection, blueprint, wanted)
    for function in wanted.functions:
        connection.execute(trusted(function.sql))
        called = f"FUNCTION {function.name}({function.arguments})"
        if function.for_everyone:
            connection.execute(trusted(f"GRANT EXECUTE ON {called} TO PUBLIC"))
        else:
            connection.execute(trusted(f"REVOKE ALL ON {called} FROM PUBLIC"))
    del owner


def _create_tables(connection: Connection, blueprint: Blueprint, wanted: Design) -> None:
    connection.execute("SET LOCAL client_min_messages = warning")
    for name, definition in wanted.tables:
        connection.execute(trusted(f"CREATE TABLE IF NOT EXISTS {name} ({definition})"))
    statements = blueprint.object("statements")
    connection.execute(trusted(f"CREATE SEQUENCE IF NOT EXISTS {statements} MINVALUE 0 START 0"))


# While a source is paused it stays as it is.
_MARK_READY = """
    UPDATE pgtrickle.pgt_immediate AS i SET ready = true, noted_at = pg_catalog.clock_timestamp()
     WHERE i.pgt_id = %(id)s AND NOT EXISTS (
               SELECT FROM pgtrickle.pgt_immediate_sources AS s
                 JOIN pgtrickle.pgt_immediate_pauses AS p USING (source_relid)
                WHERE s.pgt_id = i.pgt_id)
"""
_MARK_NOT_READY = """
    UPDATE pgtrickle.pgt_immediate
       SET ready = false, reason = %(reason)s, noted_at = pg_catalog.clock_timestamp()
     WHERE pgt_id = %(id)s
"""


def mark_ready(connection: Connection, stream_table_id: int) -> None:
    """Let writers follow their changes from now on; the sources must be locked."""
    connection.execute(_MARK_READY, {"id": stream_table_id})


def mark_not_ready(
    connection: Connection, stream_table_id: int, name: QualifiedName, reason: str
) -> None:
    """Let no writer follow its changes; waits for those that do."""
    lock = f"LOCK TABLE ONLY {name.sql} IN SHARE ROW EXCLUSIVE MODE"
    connection.execute(trusted(lock))
    connection.execute(_MARK_NOT_READY, {"id": stream_table_id, "reason": reason})


def _drop_old(connection: Connection, stream_table_id: int, wanted: Design) -> None:
    """Drop what a new design replaces; functions of triggers are replaced in place."""
    # A database that was restored has triggers with the oids of another in their names.
    given = {
        "pattern": rf"^st_{stream_table_id:d}_(before|after)(_|$)",
        "names": [one.name for one in wanted.triggers],
    }
    for (function,) in connection.execute(_LIST_CALLED_BY_OTHERS, given).fetchall():
        connection.execute(trusted(f"DROP FUNCTION {function} CASCADE"))
    kept = {one.name for one in wanted.functions if one.returns == "trigger"}
    _drop(connection, stream_table_id, kept)


_FORGET_PAUSES = """
    DELETE FROM pgtrickle.pgt_immediate_pauses AS p
     WHERE NOT EXISTS (SELECT FROM pgtrickle.pgt_immediate_sources AS s
                        WHERE s.source_relid = p.source_relid)
"""


def drop_immediate(connection: Connection, stream_table_id: int) -> None:
    """Drop everything that was created for writers; locks the sources until the commit."""
    _drop(connection, stream_table_id, ())
    values = {"id": stream_table_id}
    connection.execute("DELETE FROM pgtrickle.pgt_immediate WHERE pgt_id = %(id)s", values)
    connection.execute(_FORGET_PAUSES)


def _drop(connection: Connection, stream_table_id: int, kept: Sequence[str] | set[str]) -> None:
    connection.execute("SET LOCAL client_min_messages = warning")
    own = {"pattern": rf"^st_{stream_table_id:d}_(follow|before|after)(_|$)"}
    names = {name.removesuffix("()").replace('"', "") for name in kept}
    for (function,) in connection.execute(_LIST_FUNCTIONS, own).fetchall():
        if function.removesuffix("()").replace('"', "") not in names:
            connection.execute(trusted(f"DROP FUNCTION {function} CASCADE"))
    own = {"pattern": rf"^st_{stream_table_id:d}_"}
    for (name,) in connection.execute(_LIST_TYPES, own).fetchall():
        connection.execute(trusted(f"DROP TYPE {QualifiedName(SCHEMA, name).sql}"))
    for relid in _list_pending(connection, stream_table_id):
        connection.execute(trusted(f"DROP TABLE {QualifiedName(SCHEMA, relid).sql}"))
    if not kept:
        statements = QualifiedName(SCHEMA, f"st_{stream_table_id:d}_statements").sql
        connection.execute(trusted(f"DROP SEQUENCE IF EXISTS {statements}"))


_LIST_PENDING = """
    SELECT c.relname FROM pg_catalog.pg_class AS c
     WHERE c.relnamespace = 'pgtrickle_state'::pg_catalog.regnamespace
       AND c.relkind = 'r' AND c.relname ~ %(pattern)s
"""


def _list_pending(connection: Connection, stream_table_id: int) -> list[str]:
    own = {"pattern": rf"^st_{stream_table_id:d}_pending_"}
    return [name for (name,) in connection.execute(_LIST_PENDING, own).fetchall()]


_LIST_READY = """
    SELECT i.pgt_id
      FROM pgtrickle.pgt_immediate AS i JOIN pgtrickle.pgt_stream_tables AS s USING (pgt_id)
     WHERE i.ready AND s.refresh_mode = 'IMMEDIATE' AND s.is_populated
       AND NOT s.needs_reinit AND pgtrickle.find_misfit(i.pgt_id) IS NULL
"""


def list_ready(connection: Connection) -> list[int]:
    """Return the ids of the stream tables that writers keep up to date."""
    return [number for (number,) in connection.execute(_LIST_READY)]


# Each update writes a catalog row: not at every pass.
_NOTE_CURRENT = """
    UPDATE pgtrickle.pgt_stream_tables AS s
       SET data_timestamp = pg_catalog.statement_timestamp(),
           last_refresh_at = pg_catalog.statement_timestamp()
     WHERE s.pgt_id = ANY (%(ids)s::pg_catalog.int8[])
       AND s.data_timestamp < pg_catalog.statement_timestamp() - interval '7 seconds'
"""


def note_current(connection: Connection, stream_table_ids: Sequence[int]) -> None:
    """Note that stream tables are up to date."""
    connection.execute(_NOTE_CURRENT, {"ids": list(stream_table_ids)})
