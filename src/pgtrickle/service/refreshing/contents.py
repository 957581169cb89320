"""Write the rows of a stream table: replace them by the difference, or follow a change.

All new contents pass through here: of a refresh, of the fixpoint of a circle, of a replaced query.
The positions of the written rows are recorded for the sink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import Connection

from pgtrickle.algebra.nodes import Output, Scalar
from pgtrickle.model.sql_type import Column
from pgtrickle.model.table_snapshot import Copied
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.refreshing.refresh import Prepared
from pgtrickle.service.sinks.entry import track
from pgtrickle.sql.scalars import column_scalar
from pgtrickle.storage.apply import (
    Applied,
    apply_places,
    apply_result,
    ensure_row_index,
    is_outdated,
    load_result,
    weigh_result,
)
from pgtrickle.storage.restoring.table_difference import list_changes, weigh_difference
from pgtrickle.storage.tracking import Tracking


@dataclass(frozen=True, slots=True)
class Rows:
    """A relation of rows, and the outermost select list over them."""

    outputs: Sequence[Output]
    source: str
    condition: Scalar | None = None
    weight: str = "1"
    stored: bool = False  # in a table, as they are, which nobody changes meanwhile
    copied: Copied | None = None  # from the stream table, and how

    @classmethod
    def of_table(
        cls,
        source: str,
        columns: Sequence[Column],
        *,
        stored: bool = False,
        copied: Copied | None = None,
    ) -> Rows:
        """Return the rows of a relation that has the columns of the result."""
        outputs = [Output(one.name, column_scalar(one.name), one.type) for one in columns]
        return cls(outputs, source, stored=stored, copied=copied)


@dataclass(frozen=True, slots=True)
class Written:
    """The number of written rows, and their positions, for a sink that follows row by row."""

    applied: Applied
    tracking: Tracking | None = None
    filled: bool = False  # from empty: all rows of the table are new

    @property
    def changed(self) -> bool:
        """Whether any row was written."""
        return bool(self.applied.inserted or self.applied.deleted)


NOTHING_WRITTEN: Final = Written(Applied(0, 0))


def follow_change(writer: Connection, prepared: Prepared, change: Rows) -> Written:
    """Add a change to the contents: its rows have weights."""
    tracking = track(writer, prepared.stream_table, prepared.compiled)
    _weigh(writer, change, less=None)
    name, columns = prepared.stream_table.name, prepared.compiled.columns
    return Written(apply_result(writer, name, columns, tracking), tracking)


def replace_contents(writer: Connection, prepared: Prepared, rows: Rows) -> Written:
    """Replace the contents: fill an empty table, or write the difference to any other."""
    name, columns = prepared.stream_table.name, prepared.compiled.columns
    tracking = track(writer, prepared.stream_table, prepared.compiled)
    applied = load_result(
        writer, name, rows.outputs, rows.source, rows.condition, weight=rows.weight
    )
    ensure_row_index(writer, name, columns)
    filled = applied is not None
    if applied is None:
        places = None
        if rows.stored:
            places = weigh_difference(writer, name, columns, rows.source, rows.copied)
        if places is None:
            _weigh(writer, rows, less=name)
            applied = apply_result(writer, name, columns, tracking)
        else:
            if prepared.stream_table.has_outbox:
                list_changes(writer, name, columns, places)
            applied = apply_places(writer, name, columns, places, tracking)
    else:
        tracking = None  # filled from empty: a sink takes all rows
    if not rows.stored or is_outdated(writer, name, applied):
        writer.execute(trusted(f"ANALYZE {name.sql}"))
    return Written(applied, tracking, filled)


def _weigh(writer: Connection, rows: Rows, *, less: QualifiedName | None) -> None:
    outputs, source, condition = rows.outputs, rows.source, rows.condition
    weigh_result(writer, outputs, source, condition, weight=rows.weight, less=less)
