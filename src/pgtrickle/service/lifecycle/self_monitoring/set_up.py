"""``setup_self_monitoring`` and ``teardown_self_monitoring``."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.catalog.insight.self_monitoring import list_parts, register_part
from pgtrickle.errors import NameTakenError
from pgtrickle.model.text.names import QualifiedName, quote_identifier, quote_literal
from pgtrickle.model.text.trusted import trusted
from pgtrickle.options.changes import read_options
from pgtrickle.service.lifecycle.bulk import create_all
from pgtrickle.service.lifecycle.create import create_stream_table
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.lifecycle.self_monitoring.parts import PARTS
from pgtrickle.service.runtime import Runtime

MONITORING_SCHEMA = "pgtrickle_monitoring"
_MARK = "Stream tables over the history of refreshes, made by pgtrickle."
_OWNER_OF_SCHEMA = """
    SELECT pg_catalog.pg_get_userbyid(n.nspowner), pg_catalog.pg_has_role(n.nspowner, 'USAGE')
      FROM pg_catalog.pg_namespace AS n WHERE n.nspname = %s
"""
_IS_OURS_AND_EMPTY = """
    SELECT pg_catalog.obj_description(n.oid, 'pg_namespace') = %(mark)s
           AND pg_catalog.pg_has_role(n.nspowner, 'USAGE')
           AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend AS d
                            WHERE d.refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass
                              AND d.refobjid = n.oid)
      FROM pg_catalog.pg_namespace AS n WHERE n.nspname = %(schema)s
"""


def set_up_self_monitoring(runtime: Runtime, schedule: str) -> list[str]:
    """Create the stream tables of self-monitoring that are missing; return all of them.

    PostgreSQL computes them: they never start Spark.
    """
    with runtime.connection() as connection:
        there = {one.part for one in list_parts(connection)}
        _ensure_schema(connection)
    options = read_options(
        {"schedule": schedule, "refresh_mode": "DIFFERENTIAL", "engine": "postgres"}
    )

    def create(part: str) -> QualifiedName:
        name = QualifiedName(MONITORING_SCHEMA, part)
        create_stream_table(runtime, name, PARTS[part], options, search_path='""')
        with runtime.connection() as connection:
            register_part(connection, name, part)
        return name

    def drop(name: QualifiedName) -> None:
        drop_stream_table(runtime, name, cascade=False)

    create_all([part for part in PARTS if part not in there], create, drop)
    with runtime.connection() as connection:
        return [one.stream_table for one in list_parts(connection)]


def tear_down_self_monitoring(runtime: Runtime) -> list[str]:
    """Drop the stream tables of self-monitoring, and their schema if it is empty then.

    One that others read stays, with an error; whoever drops those first may call again.
    """
    dropped: list[str] = []
    with runtime.connection() as connection:
        found = list_parts(connection)
    for one in reversed(found):
        name = QualifiedName.parse(one.stream_table, "")
        dropped += drop_stream_table(runtime, name, cascade=False)
    with runtime.connection() as connection:
        values = {"mark": _MARK, "schema": MONITORING_SCHEMA}
        row = connection.execute(_IS_OURS_AND_EMPTY, values).fetchone()
        if row is not None and row[0]:
            connection.execute(trusted(f"DROP SCHEMA {quote_identifier(MONITORING_SCHEMA)}"))
    return dropped


def _ensure_schema(connection: Connection) -> None:
    row = connection.execute(_OWNER_OF_SCHEMA, [MONITORING_SCHEMA]).fetchone()
    if row is not None:
        owner, ours = row
        if not ours:  # who owns a schema may drop what is in it
            raise NameTakenError(
                f'the schema "{MONITORING_SCHEMA}" belongs to "{owner}"',
                hint="Let its owner drop it, or give it to the owner of the catalog.",
            )
        return
    schema = quote_identifier(MONITORING_SCHEMA)
    with connection.transaction():
        connection.execute(trusted(f"CREATE SCHEMA {schema}"))
        connection.execute(trusted(f"COMMENT ON SCHEMA {schema} IS {quote_literal(_MARK)}"))
