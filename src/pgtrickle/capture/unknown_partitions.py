"""Partitions without capture (newcomers): a write to one leaves a gap.

A partition that was attached after the capture was installed has no statement triggers, and a
refresh that finds it is REINITIALIZE.  But it may be written through its parent and be gone again
before the next refresh: then the buffer has changes of rows that the source neither had nor has.
PostgreSQL gives only row triggers to a partition when it is attached; their
condition is false for every known partition, which costs almost nothing.

One more row trigger never fires and is there for PostgreSQL: a MERGE that routes a new row to a
partition and then updates another shows the new row in NEW TABLE in place of the updated one,
unless the partition has a BEFORE INSERT trigger for rows.
"""

from __future__ import annotations

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import BUFFER_SCHEMA
from pgtrickle.capture.sources import Source

# One gap per transaction is enough: it makes consumers load again.  Whether there is one already is
# read from the table, since a writer can change any setting.
#
# The creator of a partition needs the right to execute the function, whoever owns the table by
# then; so every role has it, and a gap from the trigger of a table that is not a partition is taken
# back.  The system catalogs answer that for the latest moment, even under an old snapshot.
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
_CREATE_NEVER_FIRED = sql.SQL("""
    CREATE TRIGGER {trigger} BEFORE INSERT ON {table} FOR EACH ROW WHEN (false)
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
    """Tell whether a source can get partitions that its statement triggers would miss."""
    return not source.members[0].stores_rows and not source.by_row


def write_newcomers_function(connection: Connection[TupleRow], relid: int) -> None:
    """Create or replace the function behind the triggers."""
    function = sql.Identifier(BUFFER_SCHEMA, newcomers_function(relid))
    text = _TEXT.format(relid=sql.SQL(f"{relid:d}::pg_catalog.oid")).as_string(connection)
    connection.execute(_CREATE_FUNCTION.format(function=function, source_text=sql.Literal(text)))
    connection.execute(_GRANT.format(function=function))


def create_newcomer_triggers(connection: Connection[TupleRow], source: Source) -> None:
    """Create the triggers on a partitioned table, for its present partitions."""
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
    trigger = sql.Identifier(f"pgtrickle_newcomers_{source.relid:d}_routed")
    connection.execute(_CREATE_NEVER_FIRED.format(trigger=trigger, table=table, function=function))
