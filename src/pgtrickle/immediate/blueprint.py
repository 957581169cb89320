"""What the functions of an IMMEDIATE stream table are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgtrickle.algebra.nodes import Scan
from pgtrickle.capture.sources import Source
from pgtrickle.delta.cut import StagedQuery
from pgtrickle.delta.layout import WEIGHT
from pgtrickle.immediate.locking import Locking, choose_locking
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.plan.stages import Known
from pgtrickle.storage.state_tables import rows_query

SCHEMA = "pgtrickle_state"


@dataclass(frozen=True, slots=True)
class Blueprint:
    """A stream table, its compiled query and its sources."""

    id: int
    relid: int
    name: QualifiedName
    columns: tuple[Column, ...]
    query: StagedQuery
    known: Known
    sources: Mapping[int, Source]  # by relid
    used: Mapping[int, tuple[str, ...]]  # columns of each
    settings: Mapping[str, str]  # on which the values of expressions depend
    max_rows: int
    names_others: bool  # functions or types that are not built in
    has_outbox: bool = False  # what statements change is appended
    key: tuple[str, ...] | None = None  # of the contents, if one is known

    @property
    def locking(self) -> Locking:
        """The lock that writers take."""
        return choose_locking(self.query)

    def state_rows(self, stage: str) -> str:
        """Return the query of a stage's stored rows."""
        [found] = [one for one in self.query.stateful if one.name == stage]
        return rows_query(self.id, found)

    def object(self, name: str) -> str:
        """Name one of its types, functions or tables."""
        return QualifiedName(SCHEMA, f"st_{self.id:d}_{name}").sql

    def source_type(self, relid: int) -> str:
        """Name the type of a changed row of a source."""
        return self.object(f"source_{relid:d}")

    def pending(self, relid: int) -> str:
        """Name the table that holds changes until the statement has ended."""
        return self.object(f"pending_{relid:d}")


def changed_rows(scan: Scan, rows: str) -> str:
    """Write the changes of a scan over the relation of changed rows of what it reads."""
    listed = "".join(f"{one.scalar.sql} AS {quote_identifier(one.name)}, " for one in scan.outputs)
    where = f" WHERE {scan.predicate.sql}" if scan.predicate else ""
    return f"SELECT {listed}{WEIGHT} FROM {rows} AS changes{where}"


def variable(name: str) -> str:
    """Name a variable, unlike any column.

    >>> variable("group_1_staged")
    '"__pgt_group_1_staged"'
    """
    return quote_identifier(f"__pgt_{name}")


def unnested(name: str) -> str:
    """Write the rows of a variable as a relation."""
    return f"pg_catalog.unnest({variable(name)})"
