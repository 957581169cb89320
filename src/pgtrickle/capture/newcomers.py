"""Partitions that capture does not know yet: a write to one leaves a gap.

A partition that was attached since the capture was installed has no statement triggers, and a
refresh that finds it there starts anew.  But it may be written through its parent and be gone again
before the next refresh: then changes of rows were captured that the source neither had nor has.
Row triggers are the only ones that PostgreSQL gives to a partition as it is attached; their
condition is false for every partition that is known, which costs next to nothing.
"""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import BUFFER_SCHEMA
from pgtrickle.capture.sources import Source

# One gap a transaction is enough: it makes consumers start anew.  Whether there is one already is
# asked of the table, since a setting is the writer's own to make.
#
# Whoever creates a partition needs the right to execute the function, whoever owns the table by
# then; so everybody has it, and what the trigger of a table that is no partition says is taken
# back.  The server's own tables answer that for the latest moment, also under an old snapshot.
_CREATE_FUNCTION = sql.SQL("""
    CREATE OR REPLACE FUNCTION {function}() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = 0
    AS {source_text}
""")
_TEXT = sql.SQL("""
BEGIN
    INSERT INTO pgtrickle.pgt_capture_gaps (source_relid, reason)
    VALUES ({relid}, 'a partition was written that is not captured yet')
        ON CONFLICT DO NOTHING;
    IF FOUND AND {relid} NOT IN (
           SELECT pg_catalog.pg_partition_ancestors(TG_RELID)) THEN
        DELETE FROM pgtrickle.pgt_capture_gaps
         WHERE source_relid = {relid} AND xid = pg_catalog.pg_current_xact_id();
    END IF;
    RETURN NULL;
END""")
_GRANT = sql.SQL("GRANT EXECUTE ON FUNCTION {function}() TO PUBLIC")
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


def write_newcomers_function(connection: Connection[TupleRow], relid: int) -> None:
    """Write the function behind the triggers, or write it anew."""
    function = sql.Identifier(BUFFER_SCHEMA, newcomers_function(relid))
    text = _TEXT.format(relid=sql.SQL(f"{relid:d}::pg_catalog.oid")).as_string(connection)
    connection.execute(_CREATE_FUNCTION.format(function=function, source_text=sql.Literal(text)))
    connection.execute(_GRANT.format(function=function))


def create_newcomer_triggers(connection: Connection[TupleRow], source: Source) -> None:
    """Create the triggers on a partitioned table, for the partitions that it has now."""
    function = sql.Identifier(BUFFER_SCHEMA, newcomers_function(source.relid))
    table = sql.Identifier(source.name.schema, source.name.name)
    connection.execute(_DROP.format(function=function))
    write_newcomers_function(connection, source.relid)
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
