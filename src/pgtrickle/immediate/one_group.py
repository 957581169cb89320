"""The short way of a statement whose rows belong to one group, which is there and stays.

Most writers change one group at a time.  Then the row of the state is locked, it gets its new sums,
and the row of the contents becomes another.  No turn is taken: who creates or removes a group has
its turn, and who changes one locks its row of the state first.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgtrickle.algebra.schema import scans_of
from pgtrickle.delta.cut import AggregateStage
from pgtrickle.delta.layout import COUNT
from pgtrickle.immediate.blueprint import Blueprint, changed_rows, variable
from pgtrickle.immediate.locking import changes_rows_in_place, shown_keys
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.plan.stages import plan_stage
from pgtrickle.postgres_engine.changes import Changes
from pgtrickle.postgres_engine.stage import write_stage
from pgtrickle.sql.emit import changes_view
from pgtrickle.sql.translate import Dialect
from pgtrickle.storage.apply import write_update
from pgtrickle.storage.merge import AggregateMerge

_ONE = variable("one")
_GROUPS = "__pgt_groups"


@dataclass(frozen=True, slots=True)
class OneGroup:
    """The parts of the short way, for a trigger function."""

    declaration: str  # of its variable
    find: str  # locks the group, and finds its old and new state; no row if there are several
    stays: str  # whether it can be changed
    change: str  # changes state and contents, and counts the latter in __pgt_number


def can_follow_one_group(blueprint: Blueprint) -> bool:
    """Tell whether there is a short way for a query."""
    return (
        not blueprint.has_outbox
        and not blueprint.names_others
        and changes_rows_in_place(blueprint.query)
    )


def follow_one_group(blueprint: Blueprint, rows: str) -> OneGroup:
    """Write the short way; ``rows`` is the query for all that change."""
    query = blueprint.query
    [stage] = (one for one in query.stateful if isinstance(one, AggregateStage))
    found = f"({_staged(blueprint, stage, rows)}) AS staged WHERE {_GROUPS} = 1"
    merge = AggregateMerge(blueprint.id, stage, found, "", "")
    columns = [quote_identifier(column.name) for column in merge.touched_columns]
    one = f"(SELECT {', '.join(f'{_ONE}.{name} AS {name}' for name in columns)})"
    change = AggregateMerge(blueprint.id, stage, "", one, "")
    versions = change.shown_row(old=True), change.shown_row(old=False)
    update = write_update(blueprint.name, query.rows.outputs, shown_keys(query), one, versions)
    few = f"NOT EXISTS (SELECT FROM ({rows}) AS changed OFFSET {blueprint.max_rows})"
    return OneGroup(
        f"{_ONE} {blueprint.object(f'{stage.name}_touched')}",
        f"SELECT {', '.join(columns)} INTO {_ONE}\n  FROM (\n{merge.lock_touched()}\n) AS one\n"
        f" WHERE {few}",
        f"{_ONE}.{quote_identifier(COUNT)} > 0 AND NOT ({merge.endless(_ONE)})",
        f"{change.update_groups()};\n{update};\nGET DIAGNOSTICS __pgt_number = ROW_COUNT;",
    )


def _staged(blueprint: Blueprint, stage: AggregateStage, rows: str) -> str:
    """Write the sums of each group over the rows, with the number of groups."""
    [scan] = scans_of(stage.body)
    plan = plan_stage(
        stage, frozenset([scan.alias]), Dialect.POSTGRES, blueprint.state_rows, blueprint.known
    )
    if plan is None:
        raise AssertionError("a change of the only source changes the sums")
    changes = {
        read.view: Changes(read, f"({changed_rows(scan, f'({rows})')}) AS changes", 0, {})
        for read in plan.reads
        if read.view == changes_view(scan)
    }
    query = write_stage(plan, changes, {}, {})
    return f"SELECT one.*, count(*) OVER () AS {_GROUPS} FROM (\n{query}\n) AS one"
