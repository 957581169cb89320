"""``rename_stream_table``, and following renames that were made by ``ALTER TABLE``.

A table is identified by its oid. Stream tables and views that read it, groups, gates and
subscriptions continue to work; the lake table of a sink keeps its name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

import psycopg
from psycopg import Connection

from pgtrickle.binding.renamed_sources import follow_renamed_sources
from pgtrickle.catalog.dependencies import list_dependents
from pgtrickle.catalog.renamed_tables import follow_renamed_tables
from pgtrickle.catalog.restored import list_unsettled
from pgtrickle.catalog.stream_tables import (
    find_stream_table_by_id,
    get_stream_table,
    get_stream_table_by_id,
)
from pgtrickle.errors import (
    NameNotUsableError,
    NameTakenError,
    PrivilegeError,
    StatusForbidsError,
    TrickleError,
)
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.shown import Shown
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime, translated_errors

logger = logging.getLogger(__name__)

OUR_SCHEMAS = frozenset({"pgtrickle", "pgtrickle_changes", "pgtrickle_state"})


@dataclass(frozen=True, slots=True)
class RenameReport(Shown):
    """The new name of a stream table, and the stream tables that read it by that name."""

    name: str
    former_name: str
    followed: tuple[str, ...]


def rename_stream_table(runtime: Runtime, name: QualifiedName, new_name: str) -> RenameReport:
    """Give a stream table another name; without a schema it stays in its own.

    Its consumers follow at once or, if that is impossible now, with the next refresh.
    """
    with runtime.connection() as connection:

        def transaction() -> tuple[StreamTable, QualifiedName]:
            stream_table = get_stream_table(connection, name)
            check_owner(connection, stream_table)
            if list_unsettled(connection):
                raise StatusForbidsError(
                    f'"{stream_table.name}" cannot be renamed yet: the database was restored or'
                    " cloned, and who reads what is found by names",
                    hint="Refresh all first: pgtrickle refresh --all; or let pgtrickle run do it.",
                )
            new = QualifiedName.parse(new_name, stream_table.name.schema)
            if new.schema in OUR_SCHEMAS:
                raise NameNotUsableError(
                    f'the schema "{new.schema}" belongs to pgtrickle',
                    hint="Move the stream table to a schema of your own.",
                )
            if new != stream_table.name:
                with translated_errors():
                    _alter(connection, stream_table, new)
                follow_renamed_tables(connection)
            return get_stream_table_by_id(connection, stream_table.id), stream_table.name

        renamed, former = until_free(runtime, connection, transaction)
        readers = [one.id for one in list_dependents(connection, renamed.relid)]
        followed = _follow(connection, readers)
    return RenameReport(str(renamed.name), str(former), tuple(followed))


def _alter(connection: Connection, stream_table: StreamTable, new: QualifiedName) -> None:
    """Rename the table and move it, so that only the new name has to be free."""
    old = stream_table.name
    steps = [old]
    if new.schema != old.schema:
        aside = f"pgtrickle_moving_{stream_table.id}"
        steps += [QualifiedName(old.schema, aside), QualifiedName(new.schema, aside)]
    steps.append(new)
    try:
        with connection.transaction():
            for before, after in pairwise(steps):
                if before.schema != after.schema:
                    what = f"SET SCHEMA {quote_identifier(after.schema)}"
                else:
                    what = f"RENAME TO {quote_identifier(after.name)}"
                connection.execute(trusted(f"ALTER TABLE {before.sql} {what}"))
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as error:
        raise NameTakenError(
            f'"{old}" cannot be called "{new}": {error.diag.message_primary}',
            hint="Choose another name, or drop or rename the object that has it.",
        ) from error
    except psycopg.errors.InvalidSchemaName as error:
        raise NameNotUsableError(
            f'the schema "{new.schema}" does not exist',
            hint=f'Create it with: CREATE SCHEMA "{new.schema}".',
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PrivilegeError(
            f'may not rename "{old}" to "{new}": {error.diag.message_primary}',
            hint=f'GRANT CREATE ON SCHEMA "{new.schema}" to this role.',
        ) from error


def follow_renames(runtime: Runtime, stream_table_ids: Collection[int]) -> None:
    """Record new names of stream tables and of their sources, as far as possible.

    A rename that cannot be followed is reported by the refresh that needs it.
    """
    with runtime.connection() as connection:
        for one in follow_renamed_tables(connection):
            logger.info(
                "the stream table was renamed",
                extra={"stream_table": str(one.new), "former_name": str(one.old)},
            )
        _follow(connection, stream_table_ids)


def _follow(connection: Connection, stream_table_ids: Collection[int]) -> list[str]:
    followed = []
    for number in stream_table_ids:
        stream_table = find_stream_table_by_id(connection, number)
        if stream_table is None:
            continue
        try:
            with translated_errors():
                if follow_renamed_sources(connection, stream_table) is None:
                    continue
        except TrickleError as error:
            logger.info("%s", error, extra={"stream_table": str(stream_table.name)})
            continue
        followed.append(str(stream_table.name))
    return followed
