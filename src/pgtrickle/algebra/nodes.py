"""The operators of a defining query, as frozen values.

Column names are unique over a whole plan, so a name alone says where a value comes from and
joining two inputs never renames anything.  A plan over the versions ``BEFORE`` and ``AFTER``
denotes a multiset; as soon as a ``CHANGES`` scan takes part, it denotes a bag of weighted rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import QualifiedName


@dataclass(frozen=True, slots=True)
class Scalar:
    """An expression in PostgreSQL's dialect over named columns, each quoted in the text."""

    sql: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """A named and typed expression: one column that an operator computes."""

    name: str
    scalar: Scalar
    type: SqlType

    @property
    def column(self) -> Column:
        """The column this output becomes for the operators above."""
        return Column(self.name, self.type)


class Version(Enum):
    """Which state of a source a scan reads."""

    BEFORE = "before"  # at the old frontier
    AFTER = "after"  # at the new frontier
    CHANGES = "changes"  # the weighted rows between the two
    BOTH = "both"  # rows of both frontiers, each with a weight for either


class SourceKind(Enum):
    """What a scan reads."""

    TABLE = "table"  # a captured table: it stands at AFTER, its buffer holds CHANGES
    STATE = "state"  # the rows of an earlier stage: they stand at BEFORE until they are merged
    QUERY = "query"  # a query that PostgreSQL answers whole: it has only AFTER


@dataclass(frozen=True, slots=True)
class Source:
    """A relation that a scan reads, apart from how it is read."""

    kind: SourceKind
    key: str  # unique among the sources of a plan: a relation's oid, a stage's name
    relation: QualifiedName | None = None  # TABLE only
    relid: int = 0  # TABLE only
    query: str = ""  # QUERY only
    merged: bool = False  # STATE only: read where this refresh's changes are merged already


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of one source: a filter and computed columns that PostgreSQL evaluates at the read."""

    source: Source
    alias: str  # unique in the plan, readable: the user's own alias where possible
    outputs: tuple[Output, ...]  # scalars over the source's own column names
    predicate: Scalar | None = None  # over the source's own column names
    version: Version = Version.AFTER


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows of ``child`` for which ``predicate`` is true."""

    child: Node
    predicate: Scalar


@dataclass(frozen=True, slots=True)
class Project:
    """One computed row for each row of ``child``."""

    child: Node
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class InnerJoin:
    """The pairs of rows for which ``on`` is true; every pair where it is None."""

    left: Node
    right: Node
    on: Scalar | None


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of all ``children``, which have the same column names."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate function over columns of the aggregate's input."""

    name: str
    function: str
    sql: str  # the call over the argument columns, in PostgreSQL's dialect, without FILTER
    arguments: tuple[Column, ...]  # none: count(*)
    condition: str | None  # a boolean column: FILTER (WHERE ...)
    whole: bool  # a function of one expression, which is the argument
    plain: bool  # no DISTINCT, no ORDER BY, no WITHIN GROUP
    distinct: bool
    type: SqlType


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One row for each combination of ``keys``; without keys, exactly one row."""

    child: Node
    keys: tuple[Column, ...]
    calls: tuple[AggregateCall, ...]
    shown_by: str | None = None  # a boolean column: rows whose keys tell the digits to show


@dataclass(frozen=True, slots=True)
class Weigh:
    """The rows of ``child``, each as often as ``factor`` says, which is never negative."""

    child: Node
    factor: Scalar


@dataclass(frozen=True, slots=True)
class Recompute:
    """The answer of a query over the rows of ``child``, which splits by ``keys``.

    The rows that agree on ``keys`` are a partition.  The query must answer for any set of whole
    partitions the same as for each of them separately; so it may run on the touched ones only.
    """

    child: Node
    keys: tuple[Column, ...]  # columns of the child; the query passes them on
    outputs: tuple[Column, ...]  # the query's columns, the keys among them
    sql: str  # in PostgreSQL's dialect; the relation INPUT holds the partitions' rows
    operator: str  # the name shown to a reader: "window", "top-k"
    # For inserts only: the rows they add, over INPUT, the new rows INSERTED and the result STORED.
    growth: str = ""


# Relations that the query of a recomputed operator reads; no column and no source has such names.
INPUT = "__input"
INSERTED = "__inserted"
STORED = "__stored"

Node = Scan | Filter | Project | InnerJoin | UnionAll | Aggregate | Weigh | Recompute


@dataclass(frozen=True, slots=True)
class Query:
    """A defining query: a plan, and the outermost projection that PostgreSQL evaluates."""

    node: Node
    outputs: tuple[Output, ...]
