"""The staging tables that hold the results of stages until they are merged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import Connection

from pgtrickle.delta.reads import stage_changes
from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.plan.stages import StagePlan
from pgtrickle.service.lock_waits import impatient
from pgtrickle.service.runtime import Runtime
from pgtrickle.storage.staging import (
    create_parts_table,
    create_shared_staging,
    drop_shared_staging,
    share_rows,
    share_values,
    stage_rows,
    staging_table,
)

if TYPE_CHECKING:  # a refresh by PostgreSQL needs no Arrow
    import pyarrow as pa

_DROP_PATIENCE = "10s"


@dataclass(slots=True)
class Staging:
    """The staging tables of one refresh: temporary ones, and shared ones that it drops."""

    runtime: Runtime
    stream_table: StreamTable
    _tables: dict[str, str] = field(default_factory=dict)
    _shared: list[QualifiedName] = field(default_factory=list)
    _changes: dict[str, QualifiedName] = field(default_factory=dict)
    _keys: dict[str, QualifiedName] = field(default_factory=dict)
    _parts: QualifiedName | None = None

    def __contains__(self, stage: str) -> bool:
        return stage in self._tables

    def table(self, stage: str) -> str:
        """Return the table that holds a stage's rows, as SQL."""
        return self._tables[stage]

    def copy(self, writer: Connection, stage: StagePlan, result: pa.Table) -> None:
        """Copy a small result into a temporary table of the writer's transaction."""
        from pgtrickle.transit.copy_csv import arrow_to_csv  # noqa: PLC0415 - see above

        names = [column.name for column in stage.columns]
        stage_rows(writer, stage.stage.name, stage.columns, arrow_to_csv(result.select(names)))
        self._tables[stage.stage.name] = staging_table(stage.stage.name)

    def use(self, stage: str, rows: str) -> None:
        """Use a relation that PostgreSQL already has as the rows of a stage."""
        self._tables[stage] = rows

    def create_shared(self, stage: StagePlan) -> QualifiedName:
        """Create and commit the table into which executors write a large result."""
        with self.runtime.connection() as connection:
            table = create_shared_staging(
                connection, self.stream_table.id, stage.stage.name, stage.columns
            )
        self._shared.append(table)
        self._tables[stage.stage.name] = table.sql
        return table

    def share_changes(self, writer: Connection, stage: str) -> QualifiedName:
        """Return a table, visible to every connection, with the changes of an earlier stage."""
        if stage not in self._changes:
            with self.runtime.connection() as connection:
                table = share_rows(
                    writer, connection, stage_changes(stage), self.stream_table.id, stage
                )
            self._changes[stage] = table
            self._shared.append(table)
        return self._changes[stage]

    def share_keys(self, reader: Connection, array: str) -> QualifiedName:
        """Return a table, visible to every connection, with the elements of an array, as ``k``."""
        if array not in self._keys:
            with self.runtime.connection() as connection:
                table = share_values(
                    reader, connection, array, self.stream_table.id, len(self._keys)
                )
            self._keys[array] = table
            self._shared.append(table)
        return self._keys[array]

    def parts(self) -> QualifiedName:
        """Return the table in which executors report rows; created at its first use."""
        if self._parts is None:
            with self.runtime.connection() as connection:
                self._parts = create_parts_table(connection, self.stream_table.id)
            self._shared.append(self._parts)
        return self._parts

    @contextmanager
    def cleaned_up(self) -> Iterator[None]:
        """Drop the shared tables when the block ends, however it ends."""
        try:
            yield
        finally:
            # An executor may not have noticed yet that its job is over; the next refresh of this
            # stream table replaces a table that cannot be dropped now.
            for table in self._shared:
                with (
                    suppress(TrickleError),
                    self.runtime.connection() as connection,
                    impatient(connection, _DROP_PATIENCE),
                ):
                    drop_shared_staging(connection, table)
