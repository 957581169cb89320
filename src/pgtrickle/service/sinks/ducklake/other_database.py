"""A lake whose catalog is in another database: two commits, and each delivery exactly once.

The commit here comes first.  It changes the row map as if the snapshot were there, keeps aside what
the map lost, and stores the intent: which snapshot is about to be committed there, with a token
that stands in its extra information.  Then the other database commits, and a last transaction here
strikes the intent off.  Whoever meets an intent later, after a crash or a connection that was lost,
looks for the token under the lock that every writer of the lake holds until its end, and confirms
the intent or undoes it.  See docs/adr/0026.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.catalog.lake.intents import find_intent, take_intent
from pgtrickle.catalog.lake.sinks import (
    close_delivery,
    find_sink,
    insert_provenance,
    update_sink,
)
from pgtrickle.errors import LakePathError, TrickleError
from pgtrickle.lake.files.roots import Roots
from pgtrickle.lake.files.stores import remove
from pgtrickle.lake.format.catalog import find_catalog
from pgtrickle.lake.write.endpoints import Ends
from pgtrickle.lake.write.other_database import (
    Outcome,
    connected,
    find_outcome,
    told_apart,
    transaction,
)
from pgtrickle.lake.write.row_map import RowMap
from pgtrickle.lake.write.row_map_backup import forget_all, forget_aside, put_back
from pgtrickle.model.lake.sink import BEFORE, Intent, LakeSink
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.sinks.ducklake.errors import lake_errors

logger = logging.getLogger(__name__)


@contextmanager
def opened(catalog_dsn: str, local: Connection) -> Iterator[Ends]:
    """Reach the catalog of a sink, for the length of a block."""
    if not catalog_dsn:
        yield Ends(local, local)
        return
    with connected(catalog_dsn) as lake, told_apart(lake):
        yield Ends(local, lake)


@contextmanager
def lake_transaction(ends: Ends) -> Iterator[None]:
    """Run a block that changes the catalog alone in one transaction."""
    with transaction(ends.lake) if ends.apart else ends.local.transaction():
        yield


def describe_before(sink: LakeSink) -> dict[str, object]:
    """Return what an intent gives back to its sink if it comes to nothing."""
    return {name: getattr(sink, name) for name in BEFORE}


def settle(ends: Ends, stream_table: StreamTable, sink: LakeSink) -> bool:
    """Find out what became of a commit in doubt, and act on it; False if there is none."""
    intent = find_intent(ends.local, sink.stream_table_id)
    if intent is None:
        return False
    outcome = _find_outcome(ends.lake, sink, intent)
    logger.warning(
        "a commit in the database of the lake was in doubt",
        extra={"stream_table": str(stream_table.name), "outcome": outcome.value},
    )
    if outcome is Outcome.COMMITTED:
        confirm(ends.local, stream_table, intent)
    else:
        _undo(ends.local, intent, outcome)
    return True


def confirm(local: Connection, stream_table: StreamTable, intent: Intent) -> None:
    """Take down that a snapshot was committed; once, whoever else does."""
    with local.transaction():
        if not take_intent(local, intent):
            return
        forget_aside(local, RowMap(intent.stream_table_id))
        if intent.delivery_id is None:
            return
        insert_provenance(
            local,
            stream_table,
            snapshot_id=intent.snapshot_id,
            refresh_id=intent.refresh_id,
            frontier=intent.frontier,
            rows=intent.rows + intent.deleted,
        )
        close_delivery(
            local,
            intent.delivery_id,
            refresh_id=intent.refresh_id,
            rows=intent.rows,
            deleted=intent.deleted,
            size=intent.size,
            snapshot_id=intent.snapshot_id,
        )


def _find_outcome(lake: Connection, sink: LakeSink, intent: Intent) -> Outcome:
    catalog = find_catalog(lake, sink.catalog_schema)
    if catalog is None:
        return Outcome.FORGOTTEN
    return find_outcome(lake, catalog, intent.snapshot_id, intent.token)


def _undo(local: Connection, intent: Intent, outcome: Outcome) -> None:
    rows = RowMap(intent.stream_table_id)
    loads = intent.loads or outcome is Outcome.FORGOTTEN
    with local.transaction():
        taken = take_intent(local, intent)
        sink = find_sink(local, intent.stream_table_id)
        if not taken or sink is None:
            return
        if loads:
            forget_all(local, rows)
        else:
            put_back(local, rows, intent.first_file_id)
        update_sink(local, replace(sink, **intent.before, needs_load=sink.needs_load or loads))
    _remove_files(sink, intent, outcome)


def _remove_files(sink: LakeSink, intent: Intent, outcome: Outcome) -> None:
    """Take away the files of a snapshot that is known not to be there."""
    if outcome is Outcome.UNDONE:
        roots = Roots(sink.roots)
        for path in intent.paths:
            with suppress(OSError, LakePathError):  # it stays behind as an orphan
                remove(roots.place(path))


@dataclass(frozen=True, slots=True)
class Ending:
    """A sink that is no more here, and whose copy is to end elsewhere too."""

    stream_table: StreamTable
    sink: LakeSink
    intent: Intent | None
    drop: bool  # the lake table too, not only its view


def end_elsewhere(
    ending: Ending, end: Callable[[Connection, StreamTable, LakeSink, bool], None]
) -> None:
    """End a copy in another database, when that is committed here.

    A database that cannot be reached keeps the copy; nothing here waits for it.
    """
    sink, intent = ending.sink, ending.intent
    try:
        with lake_errors(), connected(sink.catalog_dsn) as lake, told_apart(lake):
            if intent is not None:
                outcome = _find_outcome(lake, sink, intent)
                if outcome is not Outcome.COMMITTED:
                    sink = replace(sink, **intent.before)
                _remove_files(sink, intent, outcome)
            with transaction(lake):
                end(lake, ending.stream_table, sink, ending.drop)
    except TrickleError as error:
        logger.warning(
            "the copy in the lake could not be ended, so it stays there",
            extra={"stream_table": str(ending.stream_table.name), "error": str(error)},
        )
