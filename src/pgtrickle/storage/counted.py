"""Counted tables: a multiset as one row per distinct row, with its count."""

from __future__ import annotations

from collections.abc import Sequence

from pgtrickle.delta.layout import COUNT
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.comparable import comparable, identity, representative
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.storage.identity import identical_row


def merge_counts(
    table: QualifiedName,
    columns: Sequence[Column],
    changes: str,
    number: str,
    *,
    keys: Sequence[Column] = (),
    match: str | None = None,
) -> str:
    """Write the statement that adds weighted rows to a counted table; zero counts are deleted.

    ``changes`` is a relation, perhaps with a WHERE, whose expression ``number`` says by how much
    each row's count changes.  Rows are told apart by how they look, but for their ``keys``.
    ``match`` replaces the comparison of whole rows if an index allows a faster one.
    """
    others = [column for column in columns if column not in keys]
    count = quote_identifier(COUNT)
    names = [quote_identifier(column.name) for column in columns]
    inserted = "".join(f"d.{name}, " for name in names)
    grouped = [*groups(keys), *identities(others)]
    by = f" GROUP BY {', '.join(grouped)}" if columns else ""
    return (
        f"MERGE INTO {table.sql} AS stored\n"
        f"USING (SELECT {representatives(columns)}sum({number})::bigint AS change\n"
        f"         FROM {changes}\n"
        f"       {by} HAVING sum({number}) <> 0) AS d\n"
        f"   ON {match or identical_row(columns, 'stored', 'd', keys=keys)}\n"
        f" WHEN MATCHED AND stored.{count} + d.change = 0 THEN DELETE\n"
        f" WHEN MATCHED THEN UPDATE SET {count} = stored.{count} + d.change\n"
        f" WHEN NOT MATCHED THEN INSERT ({''.join(f'{name}, ' for name in names)}{count})"
        f" VALUES ({inserted}d.change)"
    )


def groups(columns: Sequence[Column]) -> list[str]:
    """Return the grouping expressions, in a form that PostgreSQL can compare for every type."""
    return [comparable(quote_identifier(column.name), column.type) for column in columns]


def identities(columns: Sequence[Column]) -> list[str]:
    """Return the grouping expressions that also tell apart equal values that look different."""
    return [
        one for column in columns for one in identity(quote_identifier(column.name), column.type)
    ]


def representatives(columns: Sequence[Column]) -> str:
    """List the columns of a group; equal values may look different, and any of them is used."""
    parts = []
    for column in columns:
        name = quote_identifier(column.name)
        one = representative(name, column.type)
        parts.append(f"{one} AS {name}, " if one != name else f"{name}, ")
    return "".join(parts)
