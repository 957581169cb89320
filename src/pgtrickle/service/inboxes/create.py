"""``create_inbox``: a table that receives messages once, and stream tables over it."""

from __future__ import annotations

from contextlib import suppress

import psycopg
from psycopg import Connection

from pgtrickle.catalog.inboxes.config import (
    Inbox,
    add_part,
    delete_inbox,
    get_inbox,
    insert_inbox,
)
from pgtrickle.errors import InboxError, NameNotUsableError, NameTakenError, PrivilegeError
from pgtrickle.model.streams.inbox import (
    INBOX_RETENTION_HOURS,
    MAX_RETRIES,
    SCHEDULE_SECONDS,
    check_inbox,
)
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.options.changes import read_options
from pgtrickle.service.inboxes.parts import (
    DEAD_LETTERS,
    PENDING,
    STATS,
    part_name,
    write_query,
)
from pgtrickle.service.lifecycle.bulk import create_all
from pgtrickle.service.lifecycle.create import create_stream_table
from pgtrickle.service.lifecycle.drop import drop_stream_table
from pgtrickle.service.runtime import Runtime, translated_errors

_OUR_SCHEMAS = frozenset({"pgtrickle", "pgtrickle_changes", "pgtrickle_state"})
_LONGEST_NAME = 54  # bytes: the stream tables add up to nine
_CREATE = """
    CREATE TABLE {table} (
        event_id     text        PRIMARY KEY,
        event_type   text,
        source       text,
        aggregate_id text,
        sequence_num bigint,
        priority     integer     NOT NULL DEFAULT 0,
        payload      jsonb,
        trace_id     text,
        received_at  timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
        processed_at timestamptz,
        retry_count  integer     NOT NULL DEFAULT 0 CHECK (retry_count >= 0),
        error        text
    )
"""
_INDEXES = (
    "CREATE INDEX ON {table} (processed_at) WHERE processed_at IS NOT NULL",
    "CREATE INDEX ON {table} (received_at) WHERE processed_at IS NULL",
)
_COMMENT = "COMMENT ON TABLE {table} IS 'Messages, each once: an inbox of pgtrickle.'"


def create_inbox(
    runtime: Runtime,
    name: QualifiedName,
    *,
    max_retries: int = MAX_RETRIES,
    with_dead_letter: bool = True,
    with_stats: bool = True,
    schedule_seconds: int = SCHEDULE_SECONDS,
    retention_hours: float = INBOX_RETENTION_HOURS,
) -> list[str]:
    """Create an inbox; return the names of its stream tables.  If one fails, nothing is left."""
    check_inbox(
        max_retries=max_retries,
        schedule_seconds=schedule_seconds,
        retention_hours=retention_hours,
    )
    if len(name.name.encode()) > _LONGEST_NAME:
        raise InboxError(
            f'the name "{name.name}" is too long for an inbox',
            hint=f"It has {_LONGEST_NAME} bytes at most: its stream tables add to it.",
        )
    if name.schema in _OUR_SCHEMAS:
        raise NameNotUsableError(
            f'the schema "{name.schema}" belongs to pgtrickle',
            hint="Create the inbox in a schema of your own.",
        )
    with runtime.connection() as connection, connection.transaction():
        _create_table(connection, name)
        insert_inbox(
            connection,
            name,
            max_retries=max_retries,
            schedule_seconds=schedule_seconds,
            retention_hours=retention_hours,
        )
        inbox = get_inbox(connection, name)
    wanted = [PENDING]
    wanted += [DEAD_LETTERS] if with_dead_letter else []
    wanted += [STATS] if with_stats else []

    def create(part: str) -> QualifiedName:
        return create_part(runtime, inbox, part, schedule_seconds)

    def drop(made: QualifiedName) -> None:
        drop_stream_table(runtime, made, cascade=False)

    try:
        return [str(one) for one in create_all(wanted, create, drop)]
    except BaseException:
        with suppress(psycopg.Error), runtime.connection() as connection, connection.transaction():
            delete_inbox(connection, inbox)
            connection.execute(trusted(f"DROP TABLE {name.sql}"))
        raise


def create_part(runtime: Runtime, inbox: Inbox, part: str, seconds: int) -> QualifiedName:
    """Create a stream table of an inbox, which PostgreSQL maintains."""
    name = part_name(inbox.table, part)
    options = read_options(
        {"schedule": f"{seconds}s", "refresh_mode": "DIFFERENTIAL", "engine": "postgres"}
    )
    create_stream_table(runtime, name, write_query(inbox, part), options, search_path='""')
    with runtime.connection() as connection:
        add_part(connection, inbox, part, name)
    return name


def _create_table(connection: Connection, name: QualifiedName) -> None:
    with translated_errors():
        try:
            for statement in (_CREATE, *_INDEXES, _COMMENT):
                connection.execute(trusted(statement.replace("{table}", name.sql)))
        except psycopg.errors.DuplicateTable as error:
            raise NameTakenError(
                f'a relation "{name}" already exists', hint="Choose another name for the inbox."
            ) from error
        except psycopg.errors.InvalidSchemaName as error:
            raise NameNotUsableError(
                f'the schema "{name.schema}" does not exist',
                hint=f'Create it with: CREATE SCHEMA "{name.schema}".',
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise PrivilegeError(
                f'may not create a table in the schema "{name.schema}"',
                hint=f"Let its owner run: GRANT USAGE, CREATE ON SCHEMA"
                f" {quote_identifier(name.schema)} TO {quote_identifier(connection.info.user)};",
            ) from error
