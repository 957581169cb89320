"""WITH RECURSIVE that comes to an end: closures under UNION, and walks of bounded length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.kinds import Shown

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar


def recursive_cte(grammar: Grammar, name: str) -> tuple[str, Shown]:
    """Draw a recursive CTE: its text, and what it shows."""
    draw = grammar.draw
    edges = [
        (table.name, ints)
        for table in draw.tables
        if (ints := [column for column, kind in table.columns if kind == "int"])
    ]
    form = draw.choose(
        {
            "recursive.closure": 4 if edges else 0,
            "recursive.walk": 2 if edges else 0,
            "recursive.numbers": 1,
        }
    )
    if form == "recursive.numbers":
        return (
            f"{name}(n) AS ( SELECT 1 UNION ALL SELECT ({name}.n + 1) FROM {name}"
            f" WHERE ({name}.n < 4))",
            Shown("", (("n", "int"),)),
        )
    table, ints = draw.pick(edges)
    start, end = ints[0], ints[-1]
    draw.tables_left -= 2
    first, second = draw.alias(table), draw.alias(table)
    where = f" WHERE ({first}.{start} {draw.pick(('=', '>', '<>'))} 1)" if draw.chance(40) else ""
    if form == "recursive.closure":
        return (
            f"{name}(x, y) AS ( SELECT {first}.{start}, {first}.{end} FROM public.{table} {first}"
            f"{where} UNION SELECT {name}.x, {second}.{end} FROM ({name} JOIN public.{table}"
            f" {second} ON (({name}.y = {second}.{start}))))",
            Shown("", (("x", "int"), ("y", "int"))),
        )
    return (
        f"{name}(x, n) AS ( SELECT {first}.{start}, 0 FROM public.{table} {first}{where}"
        f" UNION ALL SELECT {second}.{end}, ({name}.n + 1) FROM ({name} JOIN public.{table}"
        f" {second} ON (({name}.x = {second}.{start}))) WHERE ({name}.n < 2))",
        Shown("", (("x", "int"), ("n", "int"))),
    )
