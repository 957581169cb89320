"""The replacement of a query whose successor has been declared: loaded, then put in its place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.catalog.circles import record_circles
from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.catalog.stream_tables import (
    delete_stream_table,
    find_plan,
    get_stream_table,
    update_needs_reinit,
)
from pgtrickle.catalog.successors import adopt_successor
from pgtrickle.errors import InternalError, StreamTableNotFoundError, TrickleError
from pgtrickle.immediate.install import drop_immediate
from pgtrickle.model.capture.cdc_mode import CdcMode, parse_cdc_mode
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, InitiatedBy, RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.plan.decide import Decision
from pgtrickle.service.capturing.mode import settle_capture
from pgtrickle.service.capturing.sources import release_sources
from pgtrickle.service.capturing.wal_slot import drop_unused_slot
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lease_waits import when_free
from pgtrickle.service.lifecycle.replacing.close_circle import Closing
from pgtrickle.service.lifecycle.replacing.successors import AlsoDone, change_columns
from pgtrickle.service.lock_waits import until_free
from pgtrickle.service.refreshing.commit import Committed, Outcome, commit, deliver_rest
from pgtrickle.service.refreshing.contents import Rows, replace_contents
from pgtrickle.service.refreshing.dispatch import refresh_when_free
from pgtrickle.service.refreshing.refresh import Basis, Prepared, Refresh
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.sinks.entry import find_copy
from pgtrickle.storage.state_tables import drop_state_tables, rename_state_tables

logger = logging.getLogger(__name__)

_END_SECONDS = 5.0


@dataclass(slots=True)
class Replacement:
    """The replacement of one query, whose successor has been declared."""

    runtime: Runtime
    stream_table: StreamTable
    successor: StreamTable
    compiled: Compiled
    reason: str = "its query was replaced"
    allow_breaking: bool = False  # changes of columns that readers feel

    def run(self, also: AlsoDone | None) -> RefreshReport:
        """Load the successor, then put it in the place of the stream table."""
        self.settle_capture()
        self._refresh_successor()
        with self._claimed_when_free() as own, keep_lease(self.runtime, own):
            # Not behind the contents that it replaces, which may have been refreshed meanwhile.
            self._refresh_successor()
            with self.runtime.connection() as writer:

                def switch() -> Committed:
                    committed = self._switch(writer, own)
                    if also is not None:
                        also(writer, get_stream_table(writer, self.stream_table.name))
                    return committed

                committed = until_free(self.runtime, writer, switch)
            deliver_rest(committed)
            return committed.report

    def close(
        self,
        circle: Sequence[QualifiedName],
        kept: Callable[[], AbstractContextManager[None]],
        also: AlsoDone | None,
    ) -> RefreshReport:
        """Put the new query in force, through which the stream table comes to read itself."""
        self.settle_capture()
        closing = Closing(
            self.runtime, self.stream_table, self.successor, self.compiled, circle, self._alter
        )
        return closing.run(kept, also)

    def settle_capture(self) -> None:
        """Let the sources of the new query be captured as they are to be."""
        wanted = self.successor.cdc_mode or parse_cdc_mode(self.runtime.settings.cdc_mode)
        sources = self.compiled.captured_columns().keys()
        settle_capture(self.runtime, sources, strict=wanted is CdcMode.WAL)

    def _refresh_successor(self) -> None:
        """Bring the successor up to date, with what it reads where that belongs together."""
        refresh_when_free(self.runtime, self.successor.name, initiated_by=InitiatedBy.INITIAL)
        with self.runtime.connection() as connection:
            self.successor = get_stream_table(connection, self.successor.name)

    @contextmanager
    def _claimed_when_free(self) -> Iterator[Lease]:
        """Hold the lease of the stream table itself, once whoever refreshes it is done."""
        with ExitStack() as stack:
            # Suspended or not: its contents are to change in any case.
            found, lease = when_free(
                lambda: stack.enter_context(
                    claimed(self.runtime, self.stream_table.name, InitiatedBy.INITIAL)
                )
            )
            if found.id != self.stream_table.id:
                raise StreamTableNotFoundError(
                    f'"{found.name}" was dropped and created anew meanwhile',
                    hint="Replace its query again, if you still want to.",
                )
            self.stream_table = found
            yield lease

    def _switch(self, writer: Connection, own: Lease) -> Committed:
        """Do all that is to become visible at once; it goes down in history as a refresh."""
        table = self.stream_table
        if table.refresh_mode is RefreshMode.IMMEDIATE:
            # Its writers follow no more; that locks the sources.
            drop_immediate(writer, table.id)
            table = replace(table, refresh_mode=self.successor.refresh_mode)
        refresh = Refresh.begin(self.runtime, table, own, InitiatedBy.MANUAL)
        prepared, basis = Prepared(refresh, self.compiled), self._basis(writer)
        with refresh.account.timed("apply"):
            self._alter(writer)
            rows = Rows.of_table(self.successor.name.sql, self.compiled.columns)
            written = replace_contents(writer, prepared, rows)
        drop_state_tables(writer, self.stream_table.id)
        rename_state_tables(writer, self.successor.id, self.stream_table.id)
        adopt_successor(writer, self.stream_table.id, self.successor.id)
        record_circles(writer)  # it may have left one
        decision = Decision(Action.REINITIALIZE, self.reason)
        with refresh.account.timed("commit"):
            committed = commit(writer, Outcome(prepared, decision, basis, written))
        if self.successor.needs_reinit:
            update_needs_reinit(writer, self.stream_table.id, needs_reinit=True)
        delete_stream_table(writer, self.successor.id)
        writer.execute(trusted(f"DROP TABLE {self.successor.name.sql}"))
        return committed

    def _alter(self, writer: Connection) -> None:
        """Give the table the columns of the new query."""
        changed = change_columns(
            writer, self.stream_table, self.compiled, allow_breaking=self.allow_breaking
        )
        if changed:
            copy = find_copy(writer, self.stream_table)
            if copy is not None:
                copy.load_anew(writer)

    def _basis(self, writer: Connection) -> Basis:
        """Return what the rows of the successor rest on."""
        frontier, taken_at = self.successor.frontier, self.successor.data_timestamp
        if frontier is None or taken_at is None:
            raise InternalError(f'"{self.successor.name}" has no frontier after its load')
        return Basis(frontier, taken_at, find_plan(writer, self.successor.id) or {})


def end_unused(runtime: Runtime, *replaced: StreamTable) -> None:
    """Forget what is remembered of a query that was replaced, and end what captured for it."""
    for one in replaced:
        runtime.remembered.forget(one)
    try:
        with runtime.connection() as connection:
            until_free(runtime, connection, lambda: release_sources(connection), _END_SECONDS)
        drop_unused_slot(runtime)
    except TrickleError as error:
        # The new query is in force; what captures for nobody ends with the next one that ends.
        logger.warning("could not end captures that nobody needs", extra={"code": error.code})
