"""Partitions that capture does not know yet: a write to one leaves a marker.

A partition that was attached since the capture was installed has no statement triggers, and a
refresh that finds it there starts anew.  But it may be written through its parent and be gone again
before the next refresh: then changes of rows were captured that the source neither had nor has.
Row triggers are the only ones that PostgreSQL gives to a partition as it is attached; their
condition is false for every partition that is known, which costs next to nothing.
"""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import BUFFER_SCHEMA, buffer_of
from pgtrickle.capture.sources import Source

# One marker a transaction is enough: like that of a TRUNCATE, it makes consumers read everything.
_CREATE_FUNCTION = sql.SQL("""
    CREATE FUNCTION {function}() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS {source_text}
""")
_TEXT = sql.SQL("""
BEGIN
    IF pg_catalog.current_setting({setting}, true)
       IS DISTINCT FROM pg_catalog.pg_current_xact_id()::pg_catalog.text THEN
        INSERT INTO {buffer} (__xid, __weight) VALUES (pg_catalog.pg_current_xact_id(), 0);
        PERFORM pg_catalog.set_config(
            {setting}, pg_catalog.pg_current_xact_id()::pg_catalog.text, true);
    END IF;
    RETURN NULL;
END""")
_REVOKE = sql.SQL("REVOKE ALL ON FUNCTION {function}() FROM PUBLIC")
_DROP = sql.SQL("DROP FUNCTION IF EXISTS {function}() CASCADE")
_CREATE_TRIGGER = sql.SQL("""
    CREATE TRIGGER {trigger} AFTER {event} ON {table} FOR EACH ROW
      WHEN ({image}.tableoid <> ALL ({known}::pg_catalog.oid[]))
      EXECUTE FUNCTION {function}()
""")
_ENABLE_ALWAYS = sql.SQL("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {trigger}")
_IMAGES = {"INSERT": "NEW", "UPDATE": "NEW", "DELETE": "OLD"}


def newcomers_function(relid: int) -> str:
    """Name the function behind the triggers, without its schema.

    >>> newcomers_function(16384)
    'capture_16384_newcomers'
    """
    return f"capture_{relid:d}_newcomers"


def watches_newcomers(source: Source) -> bool:
    """Tell whether partitions can come to a source that its statement triggers would miss."""
    return not source.members[0].stores_rows and not source.by_row


def create_newcomer_triggers(connection: Connection[TupleRow], source: Source) -> None:
    """Create the triggers on a partitioned table, for the partitions that it has now."""
    function = sql.Identifier(BUFFER_SCHEMA, newcomers_function(source.relid))
    buffer = buffer_of(source.relid)
    table = sql.Identifier(source.name.schema, source.name.name)
    text = _TEXT.format(
        buffer=sql.Identifier(buffer.schema, buffer.name),
        setting=sql.Literal(f"pg_trickle.newcomers_{source.relid:d}"),
    ).as_string(connection)
    connection.execute(_DROP.format(function=function))
    connection.execute(_CREATE_FUNCTION.format(function=function, source_text=sql.Literal(text)))
    connection.execute(_REVOKE.format(function=function))
    known = "{" + ",".join(str(member.relid) for member in source.members) + "}"
    for event, image in _IMAGES.items():
        trigger = sql.Identifier(f"pgtrickle_newcomers_{source.relid:d}_{event.lower()}")
        connection.execute(
            _CREATE_TRIGGER.format(
                trigger=trigger,
                event=sql.SQL(event),
                table=table,
                image=sql.SQL(image),
                known=sql.Literal(known),
                function=function,
            )
        )
        if source.members[0].owned:
            connection.execute(_ENABLE_ALWAYS.format(table=table, trigger=trigger))
