"""Append what a refresh changed to the outbox of its stream table, in the refresh's transaction.

The rows are those that were just applied: the consolidated difference, or all rows of a table that
was filled from empty.  If the columns are others than before, no difference can be told in them:
then the entry has the whole contents, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from psycopg import Connection
from psycopg.errors import ProgramLimitExceeded
from psycopg.types.json import Jsonb

from pgtrickle.catalog.outboxes.config import (
    add_schema,
    describe_columns,
    find_outbox,
    seal_outbox,
    start_outbox,
)
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.errors import OutboxValueError
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.stream_table import Action
from pgtrickle.service.outboxes.unique_key import find_unique_key
from pgtrickle.service.refreshing.contents import Written
from pgtrickle.service.refreshing.refresh import Prepared
from pgtrickle.storage.apply import RESULT
from pgtrickle.storage.outbox_changes import append_entry, depends_on_settings, write_texts
from pgtrickle.transit.fixed_settings import FIXED_TEXTS, RESTORE_TEXTS, SAVE_TEXTS


def append_to_outbox(
    writer: Connection,
    prepared: Prepared,
    written: Written,
    *,
    action: Action,
    refresh_id: int | None,
    frontier: Frontier,
    data_timestamp: datetime,
) -> None:
    """Append the entry of a refresh that changed rows; other refreshes leave none."""
    stream_table, columns = prepared.stream_table, prepared.compiled.columns
    outbox = find_outbox(writer, stream_table.id)
    if outbox is None:
        return
    if outbox.pending:
        seal_outbox(writer, stream_table.id)
    described, version = describe_columns(columns), outbox.schema_version
    reset = outbox.columns != described
    if not (written.changed or reset or not outbox.started):
        return
    key = find_unique_key(writer, prepared.compiled)
    if reset or outbox.key_columns != (None if key is None else list(key)):
        version = add_schema(writer, stream_table.id, columns, key)
    if not outbox.started:
        start_outbox(writer, stream_table.id)
        return
    relation, weight, paired = RESULT, f"r.{WEIGHT}", key
    if reset or written.filled:
        relation, weight, paired = f"ONLY {stream_table.name.sql}", "1", None  # all of them come
    changes = write_texts(columns, paired, relation, weight)
    values: dict[str, object] = {
        "pgt_id": stream_table.id,
        "refresh_id": refresh_id,
        "action": action.value,
        "reset": reset,
        "frontier": Jsonb(frontier.to_json()),
        "data_timestamp": data_timestamp,
        "schema_version": version,
        "most": outbox.inline_threshold_rows,
    }
    with _fixed_texts(writer, wanted=depends_on_settings(columns)):
        try:
            append_entry(writer, changes, values)
        except ProgramLimitExceeded as error:
            raise OutboxValueError(
                f"a row of {stream_table.name} is too large for its outbox, and nothing is changed",
                hint="JSON has at most 256 MB in a value. Let the query shorten it, or disable the"
                f" outbox: pgtrickle outbox disable {stream_table.name}.",
            ) from error


@contextmanager
def _fixed_texts(writer: Connection, *, wanted: bool) -> Iterator[None]:
    """Let values have the same text in every session, and later statements their own settings."""
    if not wanted:
        yield
        return
    [before] = writer.execute(SAVE_TEXTS).fetchall()
    writer.execute(FIXED_TEXTS)
    yield
    writer.execute(RESTORE_TEXTS, before)
