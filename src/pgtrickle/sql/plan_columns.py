"""The columns of a plan under construction: unique names, and the type of each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pgtrickle.algebra.nodes import Node, Output, Scalar
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.sql.bound import Typer
from pgtrickle.sql.scalars import bare_column
from pgtrickle.sql.scope import Typed
from pgtrickle.sql.text.limits import MAX_PLAN_COLUMNS, too_many_columns

_OF_STAGES = re.compile(r"(group|part)_\d+|result")  # see ``delta.cut``
_MAX_NAME = 48  # leaves room for suffixes below PostgreSQL's limit of 63 bytes


class PlanColumns:
    """Assigns names that no other column of the plan has, and knows every type."""

    def __init__(self, typer: Typer) -> None:
        self._typer = typer
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}  # the last number behind each name
        self._types: dict[str, SqlType] = {}

    def fresh(self, wanted: str) -> str:
        """Return an unused name like ``wanted``, and reserve it."""
        # Plain lower-case letters: one engine ignores case, another wants other quotes.
        base = re.sub(r"[^a-z0-9_]", "_", wanted.lower())[:_MAX_NAME] or "column"
        name, number = base, self._numbers.get(base, 1)
        # With a number behind it, every "part" would be the name of a stage.
        numbered = f"{base}_again" if _OF_STAGES.fullmatch(f"{base}_1") else base
        while name in self._taken or _OF_STAGES.fullmatch(name):
            number += 1
            name = f"{numbered}_{number}"
        if len(self._taken) >= MAX_PLAN_COLUMNS:
            raise too_many_columns()
        self._taken.add(name)
        self._numbers[base] = number
        return name

    def remember(self, node: Node) -> None:
        """Learn the types of a node's columns."""
        self._types |= {column.name: column.type for column in columns_of(node)}

    def type_of(self, name: str) -> SqlType:
        """Return the type of a column."""
        return self._types[name]

    def query_columns(self, sql: str) -> tuple[Column, ...]:
        """Return the columns of a query that reads no table."""
        return self._typer.query_columns(sql)

    def output(self, wanted: str, scalar: Scalar) -> Output:
        """Turn an expression into an output, under a fresh name."""
        (typed,) = self.typed([scalar])
        name = self.fresh(wanted)
        self._types[name] = typed.type
        return Output(name, scalar, typed.type)

    def typed(self, scalars: Sequence[Scalar]) -> list[Typed]:
        """Give each scalar its type; PostgreSQL is asked only about real expressions."""
        known = {s.sql: self._types[name] for s in scalars if (name := bare_column(s))}
        asked = [scalar for scalar in unique(scalars) if scalar.sql not in known]
        if asked:
            columns = {name: self._types[name] for scalar in asked for name in scalar.columns}
            answers = self._typer.types_of(asked, columns)
            known |= {scalar.sql: type_ for scalar, type_ in zip(asked, answers, strict=True)}
        return [Typed(scalar, known[scalar.sql]) for scalar in scalars]

    def union_types(self, branches: Sequence[Sequence[Typed]]) -> tuple[SqlType, ...]:
        """Return the column types of a UNION of the given rows."""
        return self._typer.union_types([[one.type for one in branch] for branch in branches])


def unique(scalars: Sequence[Scalar]) -> list[Scalar]:
    """Drop repeated expressions.

    >>> unique([Scalar("1"), Scalar("2"), Scalar("1")])
    [Scalar(sql='1', columns=()), Scalar(sql='2', columns=())]
    """
    return list({scalar.sql: scalar for scalar in scalars}.values())
