"""Merge the engine's result into a recomputed operator, and find its changed rows.

    input⁺   =  input⁻ + Δ
    K        =  the keys that occur in Δ
    changes  =  query(input⁺ restricted to K) − result⁻ restricted to K
    result⁺  =  result⁻ + changes

This is key-local recompute, the general law: it is right for every operator whose answer splits
by a key.  PostgreSQL keeps the operator's input as a counted table and evaluates the query itself,
so its functions, its sort order and its digits are those that a user sees.  Without a key the whole
input is one partition, and each change costs a full evaluation of that one operator.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import Connection

from pgtrickle.algebra.nodes import INPUT, INSERTED, STORED
from pgtrickle.delta.cut import RecomputeStage
from pgtrickle.delta.layout import COUNT, WEIGHT
from pgtrickle.delta.reads import stage_changes
from pgtrickle.errors import ContentsDivergedError
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.counted import groups, identities, merge_counts, representatives
from pgtrickle.storage.identity import same_row
from pgtrickle.storage.state_tables import input_table, result_table

_NUMBER = quote_identifier(COUNT)
_WEIGHT = quote_identifier(WEIGHT)


def merge_recompute(
    connection: Connection,
    stream_table_id: int,
    stage: RecomputeStage,
    staged: str,
    *,
    replace: bool,
) -> int:
    """Merge the rows of ``staged``; leave the changes in a temporary table and count them.

    With ``replace`` the staged rows are the whole input, else the change of the input.
    """
    merge = RecomputeMerge.over_temporary(stream_table_id, stage, staged)
    if replace:
        connection.execute(trusted(merge.negate()))
        connection.execute(trusted(f"ANALYZE {staged}"))
    connection.execute(trusted(f"{_temporary(merge.net_table)}{merge.net()}"))
    if stage.operator.keys:
        connection.execute(trusted(f"{_temporary(merge.touched_table)}{merge.touched()}"))
    grows = bool(stage.operator.growth) and _only_grows(connection, merge)
    keep_input(connection, merge)
    if replace:
        connection.execute(trusted(f"ANALYZE {merge.input.sql}"))
    found = merge.growth() if grows else merge.changes()
    changes = connection.execute(trusted(f"{_temporary(merge.changes_table)}{found}")).rowcount
    connection.execute(trusted(merge.merge_result()))
    if replace:
        connection.execute(trusted(f"ANALYZE {merge.result.sql}"))
    return changes


def keep_input(connection: Connection, merge: RecomputeMerge) -> None:
    """Add the net rows to the stored input; raise ST409 if that cannot be."""
    try:
        connection.execute(trusted(merge.merge_input()))
    except psycopg.errors.CheckViolation as error:
        raise ContentsDivergedError(
            f"rows of {merge.input.name} would occur a negative number of times",
            hint="The state was changed from outside; the next refresh rebuilds it.",
        ) from error


def _only_grows(connection: Connection, merge: RecomputeMerge) -> bool:
    """Tell whether rows were only inserted."""
    [(gone,)] = connection.execute(
        trusted(f"SELECT EXISTS (SELECT FROM {merge.net_table} WHERE {_WEIGHT} < 0)")
    ).fetchall()
    return not gone


def _temporary(table: str) -> str:
    return f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS\n"


class RecomputeMerge:
    """Writes the statements that merge one stage.

    ``staged``, ``net``, ``touched`` and ``changes`` are the relations that hold the rows between
    them.
    """

    def __init__(
        self,
        stream_table_id: int,
        stage: RecomputeStage,
        staged: str,
        net: str,
        touched: str,
        changes: str,
    ) -> None:
        self.input = input_table(stream_table_id, stage.name)
        self.result = result_table(stream_table_id, stage.name)
        self._operator = stage.operator
        self._columns = stage.inputs
        self._staged = staged
        self.net_table = net
        self.touched_table = touched
        self.changes_table = changes

    @classmethod
    def over_temporary(
        cls, stream_table_id: int, stage: RecomputeStage, staged: str
    ) -> RecomputeMerge:
        """Return the merge of a refresh, which keeps its rows in temporary tables."""
        net, touched = (quote_identifier(f"{stage.name}__{one}") for one in ("net", "touched"))
        return cls(stream_table_id, stage, staged, net, touched, stage_changes(stage.name))

    def negate(self) -> str:
        """Add the stored rows to the staged ones with the opposite sign."""
        names = "".join(f"{quote_identifier(column.name)}, " for column in self._columns)
        return (
            f"INSERT INTO {self._staged} ({names}{_WEIGHT})\n"
            f"SELECT {names}-{_NUMBER} FROM {self.input.sql}"
        )

    def net(self) -> str:
        """Add up the staged rows: inserted, deleted, or with a changed count."""
        return (
            f"SELECT {representatives(self._columns)}sum({_WEIGHT})::bigint AS {_WEIGHT}\n"
            f"  FROM {self._staged}{_by(identities(self._columns))} HAVING sum({_WEIGHT}) <> 0"
        )

    def touched(self) -> str:
        """Collect the keys of the partitions that change."""
        keys = self._operator.keys
        by = _by(groups(keys))
        return f"SELECT {representatives(keys)}true AS __touched FROM {self.net_table}{by}"

    def merge_input(self) -> str:
        """Add the net rows to the stored input."""
        return merge_counts(self.input, self._columns, self.net_table, _WEIGHT)

    def fill_result(self) -> str:
        """Write the answer for the whole input into a table that is empty."""
        outputs = self._operator.outputs
        names = "".join(f"{quote_identifier(column.name)}, " for column in outputs)
        return (
            f"INSERT INTO {self.result.sql} ({names}{_NUMBER})\n"
            f"WITH {INPUT} AS ({self._rows(touched=False)})\n"
            f"SELECT {representatives(outputs)}count(*) FROM ({self._operator.sql}) AS answer"
            f"{_by(identities(outputs))}\nHAVING count(*) > 0"
        )

    def changes(self) -> str:
        """Keep the difference between the new and the old answers of the touched partitions."""
        outputs = self._operator.outputs
        names = "".join(f"{quote_identifier(column.name)}, " for column in outputs)
        after = f"WITH {INPUT} AS ({self._rows()}) {self._operator.sql}"
        before = (
            f"SELECT {names}-{_NUMBER} AS {_WEIGHT} FROM {self.result.sql} AS stored"
            f"\n WHERE {self._is_touched('stored')}"
        )
        return (
            f"SELECT {representatives(outputs)}sum({_WEIGHT})::bigint AS {_WEIGHT}\n"
            f"  FROM (SELECT {names}1 AS {_WEIGHT} FROM ({after}) AS after\n"
            f"        UNION ALL\n{before}) AS versions{_by(identities(outputs))}\n"
            f"HAVING sum({_WEIGHT}) <> 0"
        )

    def growth(self) -> str:
        """Keep the rows that new rows add to the result."""
        outputs = self._operator.outputs
        listed = ", ".join(f"kept.{quote_identifier(column.name)}" for column in self._columns)
        inserted = (
            f"SELECT {listed} FROM {self.net_table} AS kept,"
            f" LATERAL pg_catalog.generate_series(1, kept.{_WEIGHT})"
        )
        stored = ", ".join(f"kept.{quote_identifier(column.name)}" for column in outputs)
        known = (
            f"SELECT {stored} FROM {self.result.sql} AS kept,"
            f" LATERAL pg_catalog.generate_series(1, kept.{_NUMBER})"
        )
        return (
            f"WITH {INPUT} AS ({self._rows()}), {INSERTED} AS ({inserted}), {STORED} AS ({known})\n"
            f"SELECT {representatives(outputs)}count(*) AS {_WEIGHT}\n"
            f"  FROM ({self._operator.growth}) AS grown{_by(identities(outputs))}"
        )

    def merge_result(self) -> str:
        """Add the changes to the stored result."""
        return merge_counts(self.result, self._operator.outputs, self.changes_table, _WEIGHT)

    def _rows(self, *, touched: bool = True) -> str:
        """Show the kept rows of the touched partitions, or all, each as often as it occurs."""
        names = ", ".join(f"kept.{quote_identifier(column.name)}" for column in self._columns)
        where = f" WHERE {self._is_touched('kept')}" if touched else ""
        return (
            f"SELECT {names} FROM {self.input.sql} AS kept,"
            f" LATERAL pg_catalog.generate_series(1, kept.{_NUMBER}){where}"
        )

    def _is_touched(self, alias: str) -> str:
        keys = self._operator.keys
        if not keys:
            # One partition: the query has an answer even if there was never a row.
            return "true"
        return f"EXISTS (SELECT FROM {self.touched_table} AS t WHERE {same_row(keys, alias, 't')})"


def _by(expressions: Sequence[str]) -> str:
    return f"\n GROUP BY {', '.join(expressions)}" if expressions else ""
