"""The interface of a kind of sink, and the delivery that it receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from psycopg import Connection

from pgtrickle.catalog.refreshes.leases import Lease
from pgtrickle.model.frontier import Frontier
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.table_snapshot import LakePlace
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.stream_table import SinkOptions
from pgtrickle.service.compile import Compiled
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.tracking import Tracking

Ending = Callable[[], None]  # ends a copy outside this database; called after the commit
Left = Callable[[Lease], None]  # makes a delivery that a refresh has left; after its commit


@dataclass(frozen=True, slots=True)
class Delivery:
    """A stream table as a refresh has left it: what is delivered, and described in the sink."""

    stream_table: StreamTable
    columns: tuple[Column, ...]
    frontier: Frontier | None
    refresh_id: int | None = None  # None: delivered apart from any refresh
    after_commit: bool = False  # never in the transaction of the refresh, which holds up writers


class Copy(Protocol):
    """The copy of one stream table in a sink."""

    def deliver(
        self,
        runtime: Runtime,
        writer: Connection,
        delivery: Delivery,
        tracking: Tracking | None,
        *,
        written: bool,
    ) -> Left | None:
        """Deliver in the transaction of a refresh; return what is left for after its commit.

        ``written`` says whether the refresh changed rows; ``tracking`` has these rows, and is None
        if all rows are new.
        """
        ...

    def load_anew(self, writer: Connection) -> None:
        """Have all rows delivered next, because the columns are about to change."""
        ...

    def track(self, writer: Connection, compiled: Compiled) -> Tracking | None:
        """Record the rows that the refresh is about to write, if the copy follows them."""
        ...

    def bring_up_to_date(self, runtime: Runtime, lease: Lease, delivery: Delivery) -> None:
        """Deliver apart from any refresh what the copy lacks; raises ST221 if it cannot be kept."""
        ...

    def keep(self, writer: Connection, delivery: Delivery) -> Kept:
        """Check that the copy can stand in for the rows of a snapshot; raises ST221 if not."""
        ...


class Kept(Protocol):
    """A copy that has been found to give back each row of its stream table as it is."""

    @property
    def rows(self) -> int:
        """The number of its rows."""
        ...

    def place(self) -> LakePlace:
        """Return where the rows are; they stay as they are until the transaction commits."""
        ...


class SinkKind(Protocol):
    """One kind of sink: a package of its own, and an entry of ``KINDS`` in ``entry.py``."""

    def enable(
        self,
        runtime: Runtime,
        connection: Connection,
        stream_table: StreamTable,
        options: SinkOptions,
    ) -> None:
        """Give a stream table such a copy, in the caller's transaction."""
        ...

    def disable(
        self, connection: Connection, stream_table: StreamTable, *, drop: bool
    ) -> list[Ending]:
        """Take the copy away, in the caller's transaction; with ``drop``, its contents too."""
        ...

    def find(self, connection: Connection, stream_table: StreamTable) -> Copy | None:
        """Return the copy of a stream table; None if it has none of this kind."""
        ...

    def retry(self, runtime: Runtime, name: QualifiedName) -> object:
        """Deliver now what the copy lacks."""
        ...
