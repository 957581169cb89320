"""The changes that a stage starts from, consolidated into temporary tables of the writer.

They bound the reads of all other tables, so how many they are decides how those are read; and a
source whose changes cancel out takes no part in the stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from psycopg import Connection

from pgtrickle.delta.layout import WEIGHT
from pgtrickle.delta.reads import Read
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.copying import copy_between
from pgtrickle.storage.counted import identities, representatives

_WEIGHT = quote_identifier(WEIGHT)
# Up to this many rows PostgreSQL's guess at a table without statistics does no harm.
_GUESSED_ROWS = 500


@dataclass(frozen=True, slots=True)
class Changes:
    """The consolidated changes of one scan."""

    read: Read
    table: str  # quoted
    rows: int
    # Expressions for the distinct values of some columns, where they are known before the stage.
    arrays: Mapping[str, str] = field(default_factory=dict)


def collect_changes(
    writer: Connection, name: str, read: Read, parts: Sequence[tuple[str, Connection]]
) -> Changes:
    """Put the changes that some queries find into a temporary table of the writer.

    Each has its connection: another one where only that one sees them (the log's, see ADR 0014).
    """
    table, rows = quote_identifier(name), 0
    for number, (query, source) in enumerate(parts):
        found = consolidated(read, query)
        create = f"CREATE TEMPORARY TABLE {table} ON COMMIT DROP AS {found}"
        if number == 0 and source is writer:
            rows = writer.execute(trusted(create)).rowcount
            continue
        if number == 0:
            writer.execute(trusted(f"{create} WITH NO DATA"))
        if source is writer:
            rows += writer.execute(trusted(f"INSERT INTO {table} {found}")).rowcount
        else:
            rows += copy_between(source, f"({found})", writer, table)
    if rows > _GUESSED_ROWS:
        _analyze(writer, table)
    return Changes(read, table, rows)


def analyze_guessed(writer: Connection, changes: Iterable[Changes]) -> None:
    """Let PostgreSQL know the sizes that it has guessed until now.

    Where many changes join few, it looks through the many for each of the few that it expects.
    """
    for one in changes:
        if one.rows <= _GUESSED_ROWS:
            _analyze(writer, one.table)


def _analyze(writer: Connection, table: str) -> None:
    writer.execute(trusted(f"ANALYZE {table}"))


def consolidated(read: Read, query: str) -> str:
    """Write the sum of the weights of equal rows, without those that come to nothing."""
    grouped = f" GROUP BY {', '.join(identities(read.columns))}" if read.columns else ""
    return (
        f"SELECT {representatives(read.columns)}pg_catalog.sum({_WEIGHT})::int8 AS {_WEIGHT}"
        f" FROM ({query}) AS changes{grouped} HAVING pg_catalog.sum({_WEIGHT}) <> 0"
    )
