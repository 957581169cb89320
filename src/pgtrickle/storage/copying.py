"""Copy the rows that one connection sees into a table of another, value by value."""

from __future__ import annotations

import psycopg
from psycopg import Connection

from pgtrickle.model.text.trusted import trusted

_FORMS = ("binary", "text")


def copy_between(
    source: Connection, rows: str, target: Connection, table: str, *, created: str = ""
) -> int:
    """Copy a relation, or a query in parentheses; return the number of rows.

    ``created`` is the statement that makes the table in the same transaction, so that its rows
    are frozen.  Both sides may be in a transaction, and go on in it.
    """
    try:
        return _copy(source, rows, target, table, created, _FORMS[0])
    except psycopg.errors.UndefinedFunction:  # some types, such as aclitem, have only a text form
        return _copy(source, rows, target, table, created, _FORMS[1])


def _copy(
    source: Connection, rows: str, target: Connection, table: str, created: str, form: str
) -> int:
    frozen = ", FREEZE" if created else ""
    out = trusted(f"COPY {rows} TO STDOUT (FORMAT {form})")
    into = trusted(f"COPY {table} FROM STDIN (FORMAT {form}{frozen})")
    with source.transaction(), target.transaction(), target.cursor() as cursor:
        if created:
            target.execute(trusted(created))
        with source.cursor().copy(out) as found, cursor.copy(into) as copy:
            for block in found:
                copy.write(block)
        return cursor.rowcount
