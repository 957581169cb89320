"""One stage as one statement: its reads are the FROM items, its result a temporary table.

Each read of the plan becomes a subquery that PostgreSQL flattens into the statement, so its
planner sees tables, state and changes with their indexes and statistics.  Expressions are the
user's own, as PostgreSQL bound them; nothing is translated.
"""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import Connection

from pgtrickle.delta.reads import KeyArray, Read, ReadKind, ValueRange, fill_ranges, without_pages
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.plan.stages import StagePlan
from pgtrickle.postgres_engine.changes import Changes, analyze_guessed
from pgtrickle.sql.text.current_time import PRESENT, Moments, fill_times

# Up to this many changes, arrays of their keys bound the reads, and the planner guesses that each
# has ten elements.  Beyond it, what is found by keys is stored first, so that the planner knows
# how many rows it joins.  Beyond the second number it chooses by the joins themselves.
FEW_CHANGES = 300
MANY_CHANGES = 30_000
# Ranges of these types are in the order of the comparison; of texts a collation decides.
_ORDERED = frozenset(
    {"int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz"}
)


def compute_stage(
    writer: Connection,
    plan: StagePlan,
    changes: Mapping[str, Changes],
    table: str,
    moments: Moments = PRESENT,
) -> int:
    """Compute a stage into a new temporary table; return the number of its rows.

    ``changes`` are those of the plan's scans, by relation; none in a full computation.
    """
    if changes:
        # Compiling a statement takes longer than a small change.
        writer.execute("SET LOCAL jit = off")
    conditions = {
        one: _range_condition(writer, one, changes[one.view])
        for read in plan.reads
        for one in read.ranges
    }
    found: dict[str, str] = {}
    if _count(changes) > FEW_CHANGES:
        analyze_guessed(writer, changes.values())
        if _count(changes) <= MANY_CHANGES:
            found = _find_rows(writer, plan, changes, conditions, moments)
    query = fill_times(write_stage(plan, changes, conditions, found), moments)
    statement = f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS\n{query}"
    return writer.execute(trusted(statement)).rowcount


def write_stage(
    plan: StagePlan,
    changes: Mapping[str, Changes],
    conditions: Mapping[ValueRange, str],
    found: Mapping[str, str],
) -> str:
    """Write a stage as one query with the columns, in the types, of its staging table.

    ``found`` names tables that hold the rows of some reads already.
    """
    relations = [
        *((one.view, _read(one, changes, conditions, found)) for one in plan.reads),
        *((one.view, one.sql) for one in plan.versions),
    ]
    views = ",\n".join(
        f"{quote_identifier(view)} AS NOT MATERIALIZED ({sql})" for view, sql in relations
    )
    listed = ", ".join(map(_typed, plan.columns))
    return f"WITH {views}\nSELECT {listed} FROM (\n{plan.sql}\n) AS computed"


def _find_rows(
    writer: Connection,
    plan: StagePlan,
    changes: Mapping[str, Changes],
    conditions: Mapping[ValueRange, str],
    moments: Moments,
) -> dict[str, str]:
    """Store the rows that are read by keys in temporary tables; return these by relation."""
    found: dict[str, str] = {}
    for number, read in enumerate(plan.reads):
        if read.kind is ReadKind.KEYED:
            query = fill_times(_read(read, changes, conditions, {}), moments)
            table = quote_identifier(f"{plan.stage.name}__rows_{number}")
            writer.execute(trusted(f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS {query}"))
            writer.execute(trusted(f"ANALYZE {table}"))
            found[read.view] = table
    return found


def _count(changes: Mapping[str, Changes]) -> int:
    return sum(one.rows for one in changes.values())


def _read(
    read: Read,
    changes: Mapping[str, Changes],
    conditions: Mapping[ValueRange, str],
    found: Mapping[str, str],
) -> str:
    if read.view in changes:
        return f"SELECT * FROM {changes[read.view].table}"
    if read.view in found:
        return f"SELECT * FROM {found[read.view]}"
    if _count(changes) > MANY_CHANGES and read.parts_sql:
        return without_pages(read.parts_sql)

    def keys(array: KeyArray) -> str | None:
        found = changes.get(array.view)
        if found is None:
            return None
        return found.arrays.get(array.column) or distinct_values(found.table, array.column)

    return fill_ranges(read.sql_with(keys), [conditions[one] for one in read.ranges])


def distinct_values(table: str, column: str) -> str:
    """Write the array of the values of a column."""
    return f"ARRAY(SELECT DISTINCT {quote_identifier(column)} FROM {table})"


def _range_condition(writer: Connection, asked: ValueRange, changes: Changes) -> str:
    """Write the condition of a range; ``true`` where the changes do not allow one."""
    if asked.type.base not in _ORDERED:
        return "true"
    value = quote_identifier(asked.column)
    # What is added must take the place of what goes, or rows beyond the range change too.
    query = f"SELECT bool_and({value} IS NOT NULL) AND sum(__weight) = 0 FROM {changes.table}"
    [(balanced,)] = writer.execute(trusted(query)).fetchall()
    if not balanced:
        return "true"
    ends = [f"(SELECT {end}({value}) FROM {changes.table})" for end in ("min", "max")]
    return f"{asked.expression} BETWEEN {ends[0]} AND {ends[1]}"


def _typed(column: Column) -> str:
    name, type_ = quote_identifier(column.name), column.type
    collate = f" COLLATE {type_.collate}" if type_.collate else ""
    return f"({name})::{type_.display}{collate} AS {name}"
