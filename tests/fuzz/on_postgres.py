"""Sources of random cases on a real PostgreSQL, and what it answers to their queries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product

from sqlglot import exp, parse_one

from pgtrickle.model.text.names import quote_literal
from tests.fuzz.cases import Change, Row, Table
from tests.fuzz.kinds import TYPES
from tests.labs.lab import Lab


def create_source(lab: Lab, table: Table, rows: Iterable[Row]) -> None:
    """Create a table with some rows."""
    columns = ", ".join(f"{name} {TYPES[kind].display}" for name, kind in table.columns)
    key = f", PRIMARY KEY ({table.columns[0][0]})" if table.keyed else ""
    lab.run(f"CREATE TABLE public.{table.name} ({columns}{key})")
    for row in rows:
        apply_change(lab, [table], Change(table.name, None, row))


def apply_change(lab: Lab, tables: Sequence[Table], change: Change, *, there: bool = True) -> None:
    """Carry a change out as one statement on one row, which must be ``there``."""
    [table] = [table for table in tables if table.name == change.table]
    name = f"public.{table.name}"
    columns = [column for column, _ in table.columns]
    casts = [f"%s::{TYPES[kind].display}" for _, kind in table.columns]
    same = " AND ".join(
        f"{column} IS NOT DISTINCT FROM {cast}" for column, cast in zip(columns, casts, strict=True)
    )
    one = f"ctid = (SELECT ctid FROM {name} WHERE {same} LIMIT 1)"
    if change.old is None and change.new is not None:
        statement, values = f"INSERT INTO {name} VALUES ({', '.join(casts)})", change.new
    elif change.old is not None and change.new is None:
        statement, values = f"DELETE FROM {name} WHERE {one}", change.old
    else:
        assert change.old is not None
        assert change.new is not None
        assigned = ", ".join(f"{c} = {cast}" for c, cast in zip(columns, casts, strict=True))
        statement = f"UPDATE {name} SET {assigned} WHERE {one}"
        values = (*change.new, *change.old)
    done = lab.connection.execute(statement.encode(), values)
    assert not there or done.rowcount == 1, f"{change} found no row"


def find_differences(lab: Lab, made: str, query: str, tables: Sequence[Table]) -> list[Row]:
    """Compare a stream table, as SQL names it, with its query.

    Inexact columns are compared by their first digits.
    Numerics are compared as text too, unless PostgreSQL's own answer depends on the order of rows.
    """
    types = lab.rows(
        "SELECT attnum, quote_ident(attname), atttypid::regtype::text FROM pg_attribute"
        f" WHERE attrelid = {quote_literal(made)}::regclass AND attnum > 0 AND NOT attisdropped"
    )
    listed = ", ".join(
        f"round({name}::numeric, 9)" if type_ == "double precision" else name
        for _, name, type_ in types
    )
    printed = ", ".join(f"{name}::text" for _, name, type_ in types if type_ == "numeric")
    found = _differences(
        lab, f"SELECT {listed} FROM ({query}) AS q", f"SELECT {listed} FROM {made}"
    )
    if not found and printed:
        answer = f"SELECT {printed} FROM ({query}) AS q"
        found = _differences(lab, answer, f"SELECT {printed} FROM {made}")
        if found and _depends_on_order(lab, tables, answer):
            return []
    return found


def _differences(lab: Lab, answer: str, stored: str) -> list[Row]:
    return lab.rows(
        f"SELECT 'missing', d.* FROM ({answer} EXCEPT ALL {stored}) AS d UNION ALL"
        f" SELECT 'extra', d.* FROM ({stored} EXCEPT ALL {answer}) AS d"
    )


# Two orders are not enough: rows that tie may stand first and last in both.
_ORDERS = ("r::text", "r::text DESC", *(f"md5({salt} || r::text)" for salt in range(10)))
# Nor is one way to join: a merge has them in the order of the keys, whatever is stored.
_JOINS = ("hashjoin", "mergejoin", "nestloop")


def _depends_on_order(lab: Lab, tables: Sequence[Table], answer: str) -> bool:
    """Tell whether the answer shows other digits if the rows come in another order.

    Where a group holds both 1.0 and 1.00, PostgreSQL shows the first or the last one that it meets:
    of rows that are stored in another order, of joined ones, and of the branches of a UNION.
    """
    names = "|".join(table.name for table in tables)
    found = set()
    for order in _ORDERS:
        for table in tables:
            ordered = f"SELECT r.* FROM public.{table.name} AS r ORDER BY {order}"
            lab.run(f"CREATE TEMPORARY TABLE {table.name} AS {ordered}")
        for join, query in product(_JOINS, (answer, _turned(answer))):
            there = re.sub(rf"\bpublic\.({names})\b", r"pg_temp.\1", query)
            lab.run(*(f"SET enable_{one} = {'on' if one == join else 'off'}" for one in _JOINS))
            # Prepared, it would go on as it was planned before.
            rows = lab.connection.execute(there.encode(), prepare=False).fetchall()
            found.add(frozenset(Counter(rows).items()))
        lab.run(*(f"DROP TABLE pg_temp.{table.name}" for table in tables))
    lab.run(*(f"RESET enable_{one}" for one in _JOINS))
    return len(found) > 1


def _turned(query: str) -> str:
    """Swap the branches of each UNION and INTERSECT, which does not change the rows."""
    tree = parse_one(query, dialect="postgres")
    for both in tree.find_all(exp.Union, exp.Intersect):
        left, right = both.this, both.expression
        both.set("this", right)
        both.set("expression", left)
    return tree.sql(dialect="postgres")
