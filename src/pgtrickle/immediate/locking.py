"""Which lock the writers of an IMMEDIATE stream table need: the least that its query allows.

A query that scans one table once is linear in the changes of that table: what a statement adds does
not depend on the rows that others write.  So without state nobody waits.  With one operator that
keeps state by a key, two writers meet only in a key, and whoever comes second waits for the first.
In every other query the change depends on rows that another transaction may be changing; then one
writer at a time has its turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pgtrickle.algebra.nodes import Scan, SourceKind
from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.cut import AggregateStage, StagedQuery, StatefulStage
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.comparable import LOOKS_DIFFERENT, comparable
from pgtrickle.sql.scalars import bare_column

# Groups share so many turns: more make fewer writers wait in vain, and the table larger.
SLOTS = 256


class LockMode(Enum):
    """How many writers can change a stream table at a time."""

    NONE = "none"  # any number
    GROUP = "group"  # one for each group
    EXCLUSIVE = "exclusive"  # one


@dataclass(frozen=True, slots=True)
class Locking:
    """The lock that writers take, and why."""

    mode: LockMode
    reason: str
    joint: bool  # the changes of all tables that a statement writes are followed together

    @property
    def slots(self) -> range:
        """The turns that there are."""
        if self.mode is LockMode.NONE:
            return range(0)
        return range(SLOTS if self.mode is LockMode.GROUP else 1)


def choose_locking(query: StagedQuery) -> Locking:
    """Choose the lock for a query."""
    scans = {
        (stage.name, scan.alias)
        for stage in query.stages
        for scan in scans_of(stage.body)
        if scan.source.kind is SourceKind.TABLE
    }
    if len(scans) > 1:
        return Locking(LockMode.EXCLUSIVE, "several_scans", joint=True)
    if not query.stateful:
        return Locking(LockMode.NONE, "one_scan", joint=False)
    if len(query.stateful) > 1 or query.rows.passes_through is None:
        return Locking(LockMode.EXCLUSIVE, "several_stages", joint=False)
    if not group_keys(query.stateful[0]):
        return Locking(LockMode.EXCLUSIVE, "no_key", joint=False)
    return Locking(LockMode.GROUP, "one_key", joint=False)


def group_keys(stage: StatefulStage) -> tuple[Column, ...]:
    """Return the key by which the state of a stage splits."""
    return stage.layout.keys if isinstance(stage, AggregateStage) else stage.operator.keys


def keeps_rows_apart(query: StagedQuery) -> bool:
    """Tell whether equal rows of the contents come from one group, so that its turn covers them."""
    if len(query.stateful) != 1 or query.rows.passes_through is None:
        return False
    [stage] = query.stateful
    shown = {bare_column(output.scalar) for output in query.rows.outputs}
    return isinstance(stage, AggregateStage) and shown.issuperset(
        key.name for key in stage.layout.keys
    )


def changes_rows_in_place(query: StagedQuery) -> bool:
    """Tell whether a change of a group makes one row of the contents another.

    The state has nothing but sums, and each group shows one row, with its key and something else.
    """
    if not keeps_rows_apart(query) or choose_locking(query).mode is not LockMode.GROUP:
        return False
    [stage], body, outputs = query.stateful, query.rows.body, query.rows.outputs
    if not isinstance(stage, AggregateStage) or not isinstance(body, Scan) or body.predicate:
        return False
    layout = stage.layout
    sums_only = not layout.values and not layout.looked_up and not layout.key_scales
    alike = all(
        key.type.base not in LOOKS_DIFFERENT and comparable(key.name, key.type) == key.name
        for key in layout.keys
    )
    return sums_only and alike and len(shown_keys(query)) < len(outputs)


def shown_keys(query: StagedQuery) -> frozenset[str]:
    """Return the columns of the contents that show a key of the only stage."""
    keys = {key.name for stage in query.stateful for key in group_keys(stage)}
    return frozenset(
        output.name for output in query.rows.outputs if bare_column(output.scalar) in keys
    )
