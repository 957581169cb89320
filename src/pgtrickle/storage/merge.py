"""Merge the engine's result into the state of an aggregate, and find the changed groups.

    groups⁺  =  groups⁻ + Δ          for every accumulator, by addition
    values⁺  =  values⁻ + Δ          for every counted value
    changes  =  result(groups⁺) − result(groups⁻)      over the touched groups

A full refresh uses the same law: it first adds the stored state with the opposite sign to the
staged rows, so that what is left is exactly the difference between new and stored.
"""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.delta.cut import AggregateStage
from pgtrickle.delta.layout import COUNT, WEIGHT, Accumulation, Layout, Result, ValueTable
from pgtrickle.delta.reads import stage_changes
from pgtrickle.errors import ContentsDivergedError, ValueOutOfRangeError
from pgtrickle.model.sql_type import BIGINT, Column, SqlType
from pgtrickle.model.text.comparable import LOOKS_DIFFERENT, identity
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.counted import groups, merge_counts, representatives
from pgtrickle.storage.identity import row_hash, same_row
from pgtrickle.storage.state_tables import (
    groups_table,
    result_sql,
    sorted_by_value,
    state_columns,
    tables_of,
    values_table,
)

_TID = SqlType("tid", "tid")


def merge_aggregate(
    connection: Connection,
    stream_table_id: int,
    stage: AggregateStage,
    staged: str,
    *,
    replace: bool,
) -> int:
    """Merge the rows of ``staged``; leave the changes in a temporary table and count them.

    With ``replace`` the staged rows are the whole input, and nobody asks for the changes.
    """
    merge = AggregateMerge.over_temporary(stream_table_id, stage, staged)
    if replace:
        connection.execute(trusted(merge.negate_groups()))
        for values in stage.layout.values:
            connection.execute(trusted(merge.negate_values(values)))
        connection.execute(trusted(f"ANALYZE {staged}"))
    for values in stage.layout.values:
        connection.execute(trusted(merge.merge_values(values)))
    connection.execute(trusted(f"{_temporary(merge.touched_table)}{merge.touched()}"))
    check_counts(connection, merge)
    connection.execute(trusted(merge.merge_groups()))
    if replace:
        # Later refreshes look up a few groups by index, if the planner knows how few.
        for table in tables_of(stream_table_id, stage):
            connection.execute(trusted(f"ANALYZE {table.sql}"))
        return 0
    found = f"{_temporary(merge.changes_table)}{merge.changes()}"
    return connection.execute(trusted(found)).rowcount


def check_counts(connection: Connection, merge: AggregateMerge) -> None:
    """Raise ST405 or ST409 if a group has come to a state that cannot be."""
    [(negative, endless)] = connection.execute(trusted(merge.impossible())).fetchall()
    if negative:
        raise ContentsDivergedError(
            f"{negative} groups of {merge.groups.name} would have a negative number of rows",
            hint="The state was changed from outside; the next refresh rebuilds it.",
        )
    if endless:
        raise ValueOutOfRangeError(
            f"{merge.groups.name} adds up NaN or Infinity, which no later change takes back",
            hint="Use refresh_mode = 'AUTO', or keep these values out with WHERE.",
        )


def _temporary(table: str) -> str:
    return f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS\n"


class AggregateMerge:
    """Writes the statements that merge one stage.

    ``staged``, ``touched`` and ``changes`` are the relations that hold the rows between them.
    """

    def __init__(
        self, stream_table_id: int, stage: AggregateStage, staged: str, touched: str, changes: str
    ) -> None:
        self._id = stream_table_id
        self._stage = stage.name
        self._layout: Layout = stage.layout
        self._keys = stage.layout.keys
        self.groups = groups_table(stream_table_id, stage.name)
        self._staged = staged
        self.touched_table = touched
        self.changes_table = changes
        self._sums = [COUNT, *(one.name for one in stage.layout.accumulators)]

    @classmethod
    def over_temporary(
        cls, stream_table_id: int, stage: AggregateStage, staged: str
    ) -> AggregateMerge:
        """Return the merge of a refresh, which keeps its rows in temporary tables."""
        touched = quote_identifier(f"{stage.name}__touched")
        return cls(stream_table_id, stage, staged, touched, stage_changes(stage.name))

    @property
    def touched_columns(self) -> tuple[Column, ...]:
        """The columns of the touched groups."""
        sums = [Column(COUNT, BIGINT)]
        sums += [Column(one.name, one.type) for one in self._layout.accumulators]
        memory = [*sums, *(Column(one.name, one.type) for one in self._layout.looked_up)]
        both = [one for column in memory for one in (column, Column(old(column.name), column.type))]
        before = (Column(old(key.name), key.type) for key in self._shown_keys)
        return (*self._keys, Column("__row", _TID), *both, *before)

    def negate_groups(self) -> str:
        """Add the stored groups to the staged rows with the opposite sign."""
        names = [*_names(self._keys), *map(quote_identifier, self._sums)]
        values = [*_names(self._keys), *(f"-{quote_identifier(name)}" for name in self._sums)]
        zero = [quote_identifier(values_.count) for values_ in self._layout.values]
        return (
            f"INSERT INTO {self._staged} ({', '.join(names + zero)})\n"
            f"SELECT {', '.join(values + ['0'] * len(zero))} FROM {self.groups.sql}"
        )

    def negate_values(self, values: ValueTable) -> str:
        """Add the stored values to the staged rows with the opposite sign."""
        table = values_table(self._id, self._stage, values.name)
        others = [v.count for v in self._layout.values if v != values]
        zero = [quote_identifier(name) for name in [*self._sums, *others]]
        columns = _names((*self._keys, *values.columns))
        names = [*columns, quote_identifier(values.count), *zero]
        selected = [*columns, f"-{quote_identifier(COUNT)}", *(["0"] * len(zero))]
        return (
            f"INSERT INTO {self._staged} ({', '.join(names)})\n"
            f"SELECT {', '.join(selected)} FROM {table.sql}"
        )

    def merge_values(self, values: ValueTable) -> str:
        """Change the numbers of a value table; a value that no longer occurs is deleted."""
        table = values_table(self._id, self._stage, values.name)
        columns = (*self._keys, *values.columns)
        changes, match = self._staged, None
        if sorted_by_value(values):
            value = quote_identifier(values.columns[0].name)
            match = f"{same_row(self._keys, 'stored', 'd')} AND stored.{value} = d.{value}"
            looks, others = (
                identity(f"{one}.{value}", values.columns[0].type)[1:] for one in ("stored", "d")
            )
            match += "".join(
                f" AND {one} IS NOT DISTINCT FROM {other}"
                for one, other in zip(looks, others, strict=True)
            )
            changes += f" WHERE {value} IS NOT NULL"
        number = quote_identifier(values.count)
        return merge_counts(table, columns, changes, number, keys=self._keys, match=match)

    def _added_up(self, *, grouped: bool = False) -> str:
        """Add up the staged rows of each group; ``grouped``: each has a single one."""
        # Without keys there is one group, even if nothing was staged for it.
        # In the types of the state: the sum of bigints is a numeric, and keys are compared by type.
        types = {column.name: column.type.display for column in state_columns(self._layout)}
        function = "" if grouped else "sum"
        sums = [
            f"COALESCE({function}({quoted}), 0)::{types[name]} AS {quoted}"
            for name in self._sums
            for quoted in [quote_identifier(name)]
        ]
        if grouped:
            return f"SELECT {', '.join([*_names(self._keys), *sums])} FROM {self._staged}"
        by = f" GROUP BY {', '.join(groups(self._keys))}" if self._keys else ""
        return f"SELECT {representatives(self._keys)}{', '.join(sums)}\n FROM {self._staged}{by}"

    def fill_groups(self, *, grouped: bool) -> str:
        """Write the groups into a table that has none; ``grouped``: each is one staged row."""
        columns = [column.name for column in state_columns(self._layout)]
        found = {one.name: self._lookup(one) for one in self._layout.looked_up}
        found |= {key.name: self._key(key) for key in self._keys}
        selected = [found.get(name, f"d.{quote_identifier(name)}") for name in columns]
        exists = f"\n WHERE d.{quote_identifier(COUNT)} <> 0" if self._keys else ""
        return (
            f"INSERT INTO {self.groups.sql} ({', '.join(map(quote_identifier, columns))})\n"
            f"SELECT {', '.join(selected)}\n"
            f"  FROM ({self._added_up(grouped=grouped)}) AS d{exists}"
        )

    def touched(self, *, grouped: bool = False, there: bool = False) -> str:
        """Collect the touched groups with their old and new state, each in its columns.

        ``grouped``: each has a single staged row.  ``there``: only those that were there before.
        """
        columns = [self._touched_key(key) for key in self._keys]
        columns.append("stored.ctid AS __row")
        for name in self._sums:
            quoted = quote_identifier(name)
            columns.append(f"COALESCE(stored.{quoted}, 0) + d.{quoted} AS {quoted}")
            columns.append(f"stored.{quoted} AS {_old(name)}")
        for result in self._layout.looked_up:
            quoted = quote_identifier(result.name)
            columns.append(f"{self._lookup(result)} AS {quoted}")
            columns.append(f"stored.{quoted} AS {_old(result.name)}")
        columns += [
            f"stored.{quote_identifier(key.name)} AS {_old(key.name)}" for key in self._shown_keys
        ]
        listed = ",\n       ".join(columns)
        return (
            f"SELECT {listed}\n"
            f"  FROM ({self._added_up(grouped=grouped)}) AS d\n"
            f"  {'' if there else 'LEFT '}JOIN {self.groups.sql} AS stored"
            f" ON {same_row(self._keys, 'stored', 'd')}"
        )

    def lock_touched(self) -> str:
        """Lock the touched groups that are there, one staged row each, and collect them."""
        return f"{self.touched(grouped=True, there=True)}\n   FOR NO KEY UPDATE OF stored"

    def lock_groups(self) -> str:
        """Lock the touched groups that are there, in one order for all; for PL/pgSQL."""
        return (
            f"PERFORM FROM {self._staged}\n"
            f"   JOIN {self.groups.sql} AS stored ON {same_row(self._keys, 'stored', 'staged')}\n"
            f"  ORDER BY {row_hash(self._keys, 'stored')} FOR NO KEY UPDATE OF stored"
        )

    @property
    def _shown_keys(self) -> tuple[Column, ...]:
        """The keys that show the digits of a value that their group still has."""
        names = {name for name, _ in self._layout.key_scales}
        return tuple(key for key in self._keys if key.name in names)

    def _key(self, key: Column) -> str:
        quoted = quote_identifier(key.name)
        scale = dict(self._layout.key_scales).get(key.name)
        if scale is None:
            return f"d.{quoted}"
        [found] = [one for one in self._layout.looked_up if one.name == scale]
        # A group that has lost its rows has no digits, nor have NaN and the infinities.
        return f"COALESCE(round(d.{quoted}, {self._lookup(found)}), d.{quoted}) AS {quoted}"

    def _touched_key(self, key: Column) -> str:
        # Equal values may look different, as 1 day and 24:00: the contents show the stored one.
        if key.type.base not in LOOKS_DIFFERENT:
            return self._key(key)
        quoted = quote_identifier(key.name)
        return f"COALESCE(stored.{quoted}, d.{quoted}) AS {quoted}"

    def impossible(self) -> str:
        """Count the touched groups whose new state cannot be one that addition leads out of."""
        return f"SELECT {', '.join(self.impossible_counts())} FROM {self.touched_table}"

    def impossible_counts(self) -> tuple[str, str]:
        """Write the numbers of touched groups with negative counts and with endless sums."""
        return (
            f"count(*) FILTER (WHERE {quote_identifier(COUNT)} < 0)",
            f"count(*) FILTER (WHERE {self.endless()})",
        )

    def endless(self, row: str = "") -> str:
        """Write the condition that a touched group has a sum that no addition leads out of."""
        prefix = f"{row}." if row else ""
        sums = [
            f"{prefix}{quote_identifier(one.name)}"
            for one in self._layout.accumulators
            if one.accumulation is Accumulation.SUM
        ]
        return " OR ".join(f"{one} IN ('NaN', 'Infinity', '-Infinity')" for one in sums) or "false"

    def count_moved(self) -> str:
        """Write the number of touched groups that are new, or have lost their rows."""
        return f"count(*) FILTER (WHERE __row IS NULL OR {quote_identifier(COUNT)} = 0)"

    def _lookup(self, result: Result) -> str:
        lookup = result.lookup
        if lookup is None:
            raise AssertionError("only looked-up results have a lookup")
        table = values_table(self._id, self._stage, lookup.values.name)
        repeat = (
            f" CROSS JOIN LATERAL pg_catalog.generate_series(1, v.{quote_identifier(COUNT)})"
            if lookup.repeated
            else ""
        )
        return (
            f"(SELECT {lookup.sql} FROM {table.sql} AS v{repeat}"
            f" WHERE {same_row(self._keys, 'v', 'd')})"
        )

    def merge_groups(self) -> str:
        """Write the new state of the touched groups; a group without rows is deleted."""
        columns = [column.name for column in state_columns(self._layout)]
        fixed = {key.name for key in self._keys if key not in self._shown_keys}
        changed = [name for name in columns if name not in fixed]
        updates = ", ".join(
            f"{quote_identifier(name)} = t.{quote_identifier(name)}" for name in changed
        )
        names = ", ".join(map(quote_identifier, columns))
        values = ", ".join(f"t.{quote_identifier(name)}" for name in columns)
        count = f"t.{quote_identifier(COUNT)}"
        delete = f" WHEN MATCHED AND {count} = 0 THEN DELETE\n" if self._keys else ""
        exists = f" AND {count} > 0" if self._keys else ""
        return (
            f"MERGE INTO {self.groups.sql} AS stored USING {self.touched_table} AS t\n"
            f"   ON stored.ctid = t.__row\n{delete}"
            f" WHEN MATCHED THEN UPDATE SET {updates}\n"
            f" WHEN NOT MATCHED{exists} THEN INSERT ({names}) VALUES ({values})"
        )

    def update_groups(self) -> str:
        """Write the new state of touched groups that were there, and stay."""
        updates = ", ".join(
            f"{quote_identifier(name)} = t.{quote_identifier(name)}" for name in self._sums
        )
        return (
            f"UPDATE {self.groups.sql} AS stored SET {updates}\n"
            f"  FROM {self.touched_table} AS t WHERE stored.ctid = t.__row"
        )

    def shown_row(self, *, old: bool) -> str:
        """Write the row that a touched group shows, or showed, as a query within one over it."""
        return self._shown("", [], old=old)

    def changes(self) -> str:
        """Keep the rows that the groups showed before and show now, with their weights."""
        before = self._result_rows(-1, "__row IS NOT NULL", old=True)
        exists = f"{quote_identifier(COUNT)} > 0" if self._keys else "true"
        after = self._result_rows(1, exists, old=False)
        return f"{before}\nUNION ALL\n{after}"

    def _result_rows(self, weight: int, condition: str, *, old: bool) -> str:
        source = f" FROM {self.touched_table} WHERE {condition}"
        return self._shown(source, [f"{weight} AS {quote_identifier(WEIGHT)}"], old=old)

    def _shown(self, source: str, weight: list[str], *, old: bool) -> str:
        memory = [*self._sums, *(result.name for result in self._layout.looked_up)]
        shown = {key.name for key in self._shown_keys} if old else set()
        inner = [
            f"{_old(name)} AS {quote_identifier(name)}" if name in shown else quote_identifier(name)
            for name in (key.name for key in self._keys)
        ]
        inner += [
            f"{_old(name) if old else quote_identifier(name)} AS {quote_identifier(name)}"
            for name in memory
        ]
        outer = [*_names(self._keys)]
        outer += [
            f"{result_sql(result.name, result.sql)} AS {quote_identifier(result.name)}"
            for result in self._layout.shown
        ]
        return (
            f"SELECT {', '.join(outer + weight)} FROM (SELECT {', '.join(inner)}{source}) AS memory"
        )


def _names(columns: tuple[Column, ...]) -> list[str]:
    return [quote_identifier(column.name) for column in columns]


def old(name: str) -> str:
    """Name the column that holds a value as it was stored before."""
    return f"{name}__old"


def _old(name: str) -> str:
    return quote_identifier(old(name))
