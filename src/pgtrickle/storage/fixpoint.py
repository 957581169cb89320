"""Compute the least fixpoint of a circle, in the transaction that applies it.

Semi-naive: each round computes only what the rows of the last round add, until none adds anything.
The rows found so far are in temporary tables, so neither readers nor change buffers see them
before they are applied, as one difference for each member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.errors import FixpointNotReachedError
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.model.text.trusted import trusted
from pgtrickle.sql.circles.fixpoint import Equation
from pgtrickle.storage.definitions import column_definitions
from pgtrickle.storage.identity import row_hash, same_row

_ROUND = "__number"  # a name that no column of a stream table has
_GET_PATH = "SELECT pg_catalog.current_setting('search_path')"
_SET_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
_FEW = 1000  # rows up to which a plan made without statistics does no harm


@dataclass(frozen=True, slots=True)
class Unknown:
    """A member of the circle: its equation, and the table that shows its rows."""

    relid: int
    name: QualifiedName
    columns: tuple[Column, ...]
    equation: Equation

    @property
    def table(self) -> str:
        """The name of the temporary table of the found rows."""
        return f"circle__{self.relid}"

    @property
    def found(self) -> str:
        """The same, with its schema."""
        return f"pg_temp.{self.table}"

    @property
    def listed(self) -> str:
        """The names of the columns."""
        return ", ".join(quote_identifier(column.name) for column in self.columns)


@dataclass(slots=True)
class Fixpoint:
    """The computation for one circle: from scratch, or from the contents of its members."""

    connection: Connection
    unknowns: Sequence[Unknown]
    max_iterations: int
    from_contents: bool
    check: Callable[[Unknown], None] = lambda _: None  # called before each step of a round
    # Queries that take the places of tables outside the circle, by relid.
    instead: Mapping[int, str] = field(default_factory=dict)
    iterations: int = 0
    _counts: dict[int, int] = field(default_factory=dict)
    _analyzed: dict[int, int] = field(default_factory=dict)

    def run(self, new: Mapping[int, Mapping[int, str]] | None = None) -> int:
        """Find all rows; return how many rounds that took.

        ``new`` has, for each member, the queries of the rows inserted into its tables,
        by relid.  Without them the whole of every query is evaluated in the first round.
        """
        [(path,)] = self.connection.execute(_GET_PATH).fetchall()
        # PostgreSQL printed the names in the queries under this path.
        self.connection.execute(_SET_PATH, [OWN_PATH])
        for unknown in self.unknowns:
            self._create(unknown)
        iterations = self._repeat(new)
        self.connection.execute(_SET_PATH, [path])  # for triggers of users
        return iterations

    def _repeat(self, new: Mapping[int, Mapping[int, str]] | None) -> int:
        while True:
            self.iterations += 1
            grown = [one for one in self.unknowns if self._grow(one, new)]
            if not grown:
                return self.iterations
            if self.iterations >= self.max_iterations:
                raise self._endless(grown[0])

    def _endless(self, grown: Unknown) -> FixpointNotReachedError:
        return FixpointNotReachedError(
            f'"{grown.name}" still gains rows after {self.iterations} iterations',
            detail=", ".join(f"{one.name}: {self._counts[one.relid]}" for one in self.unknowns),
            hint="Raise max_fixpoint_iterations, or limit the rows that the queries derive.",
        )

    def _create(self, unknown: Unknown) -> None:
        columns = f"{column_definitions(unknown.columns)}, {_ROUND} integer"
        for statement in (
            f"CREATE TEMPORARY TABLE {unknown.table} ({columns}) ON COMMIT DROP",
            f"CREATE INDEX ON {unknown.found} ({row_hash(unknown.columns)})",
            f"CREATE INDEX ON {unknown.found} ({_ROUND})",
        ):
            self.connection.execute(trusted(statement))
        self._counts[unknown.relid] = self._analyzed[unknown.relid] = 0

    def _grow(self, unknown: Unknown, new: Mapping[int, Mapping[int, str]] | None) -> bool:
        """Add the new rows of one member in this round; return whether there are any."""
        self.check(unknown)
        now = {**self.instead, **{one.relid: self._now(one) for one in self.unknowns}}
        if self.iterations > 1:
            # This includes the new rows of earlier members in the same round.
            latest = {
                one.relid: f"SELECT {one.listed} FROM {one.found}"
                f" WHERE {_ROUND} >= {self.iterations - 1}"
                for one in self.unknowns
            }
            queries = unknown.equation.growth(now, latest)
        elif new is None:
            queries = unknown.equation.whole(now)
        else:
            queries = unknown.equation.growth(now, new.get(unknown.relid, {}))
        if not queries:
            return False
        gained = self.connection.execute(trusted(self._insert(unknown, queries))).rowcount
        self._counts[unknown.relid] += gained
        self._keep_statistics(unknown)
        return gained > 0

    def _now(self, unknown: Unknown) -> str:
        found = f"SELECT {unknown.listed} FROM {unknown.found}"
        if not self.from_contents:
            return found
        return f"SELECT {unknown.listed} FROM {unknown.name.sql} UNION ALL {found}"

    def _insert(self, unknown: Unknown, queries: Sequence[str]) -> str:
        united = "\nUNION ALL ".join(f"({query})" for query in queries)
        names = [quote_identifier(column.name) for column in unknown.columns]
        # The branches of a UNION get their common types from PostgreSQL only in a UNION of all.
        typed = ", ".join(
            f"{name}::{column.type.display} AS {name}"
            for name, column in zip(names, unknown.columns, strict=True)
        )
        known = [unknown.found, *([unknown.name.sql] if self.from_contents else [])]
        absent = " AND ".join(
            f"NOT EXISTS (SELECT FROM {table} AS known"
            f" WHERE {same_row(unknown.columns, 'known', 'gained')})"
            for table in known
        )
        return (
            f"INSERT INTO {unknown.found} ({unknown.listed}, {_ROUND})\n"
            f"SELECT {unknown.listed}, {self.iterations} FROM (\n"
            f"SELECT DISTINCT {typed} FROM (\n{united}\n) AS united ({unknown.listed})\n"
            f") AS gained WHERE {absent}"
        )

    def _keep_statistics(self, unknown: Unknown) -> None:
        """Update the statistics of a table: autovacuum does not see temporary tables."""
        count = self._counts[unknown.relid]
        if count > max(_FEW, 2 * self._analyzed[unknown.relid]):
            self.connection.execute(trusted(f"ANALYZE {unknown.found}"))
            self._analyzed[unknown.relid] = count
