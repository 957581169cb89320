"""The compiler's questions to PostgreSQL: the relations of a query, the types of expressions.

PostgreSQL itself binds a query (see docs/adr/0002): these values carry its answer, and the
protocol at the end is the one question that lowering asks while it works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pgtrickle.algebra.nodes import Scalar
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view that a query reads."""

    relid: int
    name: QualifiedName
    columns: tuple[Column, ...]
    definition: str | None = None  # a view's query, as PostgreSQL prints it
    kind: str = "r"  # as in pg_class
    has_children: bool = False  # partitions, or tables that inherit from it

    @property
    def polled(self) -> bool:
        """Whether it has no triggers, so that its rows must be compared to detect changes."""
        return self.kind in {"m", "f"}


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query as PostgreSQL resolved it: names qualified, stars expanded, casts explicit."""

    sql: str
    columns: tuple[Column, ...]
    relations: Mapping[QualifiedName, Relation]
    reads: Mapping[int, tuple[str, ...]]  # base table's oid -> the columns the query depends on
    search_path: str
    set_functions: frozenset[str] = frozenset()  # the functions it calls that return sets
    # The aggregates it calls that are not built in.
    aggregates: frozenset[QualifiedName] = frozenset()


class Typer(Protocol):
    """Returns the types that PostgreSQL gives to expressions."""

    def types_of(
        self, scalars: Sequence[Scalar], columns: Mapping[str, SqlType]
    ) -> tuple[SqlType, ...]:
        """Return the type of each expression over columns of the given types."""
        ...

    def query_columns(self, sql: str) -> tuple[Column, ...]:
        """Return the columns of a query that reads no table."""
        ...

    def union_types(self, branches: Sequence[Sequence[SqlType]]) -> tuple[SqlType, ...]:
        """Return the column types of a UNION of rows of the given types."""
        ...
