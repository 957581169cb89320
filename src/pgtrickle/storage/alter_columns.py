"""Give the user's table the columns of a new query, and keep its identity.

A table that is altered, not created again, keeps its oid, its grants and the views over it.
PostgreSQL adds columns only at the end, so a query fits if the kept columns are in the old order,
with the old types, and new ones come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import Connection

from pgtrickle.errors import ColumnsDifferError, DependentsExistError
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.storage.apply import drop_row_index
from pgtrickle.storage.definitions import column_definitions


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """The columns to drop and to add; none if the table already fits."""

    dropped: tuple[str, ...] = ()
    added: tuple[Column, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.dropped or self.added)


def compare_columns(
    name: QualifiedName, stored: Sequence[tuple[str, str]], wanted: Sequence[Column]
) -> ColumnChange:
    """Return the change from the columns ``stored`` to those of a query, or raise ST213.

    >>> from pgtrickle.model.sql_type import BIGINT
    >>> a, b, c = (Column(name, BIGINT) for name in "abc")
    >>> table = QualifiedName("s", "t")
    >>> change = compare_columns(table, [("a", "bigint"), ("b", "bigint")], [b, c])
    >>> change.dropped, [column.name for column in change.added]
    (('a',), ['c'])
    >>> compare_columns(table, [("b", "bigint")], [a, b])
    Traceback (most recent call last):
    ...
    pgtrickle.errors.ColumnsDifferError: "s.t" cannot get the columns of the new query in place
    """
    types = dict(stored)
    kept = [column.name for column in wanted if column.name in types]
    added = tuple(column for column in wanted if column.name not in types)
    dropped = tuple(name for name, _ in stored if name not in kept)
    retyped = [
        f'"{column.name}" is {types[column.name]} and would be {column.type.display}'
        for column in wanted
        if column.name in types and types[column.name] != column.type.display
    ]
    in_order = [name for name, _ in stored if name in kept] == kept
    last = [column.name for column in wanted] == [*kept, *(column.name for column in added)]
    if retyped or not in_order or not last:
        raise ColumnsDifferError(
            f'"{name}" cannot get the columns of the new query in place',
            detail="; ".join(retyped)
            or f"It has {', '.join(types)}; the query has {', '.join(one.name for one in wanted)}.",
            hint="Keep the names, types and order of its columns and put new ones last; or allow it"
            " with --allow-breaking; or drop the stream table and create it again.",
        )
    return ColumnChange(dropped, added)


def alter_columns(connection: Connection, name: QualifiedName, change: ColumnChange) -> None:
    """Drop and add columns; locks readers out until the transaction ends."""
    if not change:
        return
    drops = [f"DROP COLUMN {quote_identifier(column)} RESTRICT" for column in change.dropped]
    adds = [f"ADD COLUMN {column_definitions([column])}" for column in change.added]
    try:
        with connection.transaction():
            drop_row_index(connection, name)
            connection.execute(trusted(f"ALTER TABLE {name.sql} {', '.join([*drops, *adds])}"))
    except psycopg.errors.DependentObjectsStillExist as error:
        raise DependentsExistError(
            f'other objects use columns of "{name}" that the new query does not have',
            detail=error.diag.message_detail or "",
            hint="Drop them first, or keep the columns in the query.",
        ) from error
