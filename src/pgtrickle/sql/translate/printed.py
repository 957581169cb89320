"""Values as PostgreSQL prints them: casts to text and the arguments of concat().

Spark prints other digits of a floating-point number, so it has no translation; nor has a
numeric whose number of digits after the point is not known.  Dates and timestamps are printed in
the style ISO, which the reads of a refresh fix too.
"""

from __future__ import annotations

from sqlglot import exp

from pgtrickle.sql.translate.dates.moments import INFINITIES
from pgtrickle.sql.translate.term import INTEGERS, NULL, TEXTS, Term, let, refuse


def as_output(node: exp.Expr, term: Term, *, true: str = "t", false: str = "f") -> str:
    """Write a value's text; booleans are spelled ``t`` by concat() and ``true`` by a cast."""
    if term.base in {*TEXTS, NULL}:
        return term.sql
    if term.base in INTEGERS or (
        term.base == "numeric" and term.shows_scale and isinstance(term.scale, int)
    ):
        return f"CAST({term.sql} AS STRING)"
    if term.base == "bool":
        return let(term, lambda v: f"(CASE WHEN {v} THEN '{true}' WHEN NOT {v} THEN '{false}' END)")
    if term.base in {"date", "timestamp"}:
        return let(term, lambda value: _moment(value, term.base))
    raise refuse(node)


def _moment(value: str, base: str) -> str:
    year = (
        f"CAST(CASE WHEN year({value}) > 0 THEN year({value}) ELSE 1 - year({value}) END AS STRING)"
    )
    time = f", {_time(value)}" if base == "timestamp" else ""
    names = " ".join(
        f"WHEN {value} = {moment} THEN '{name}'" for name, moment in INFINITIES[base].items()
    )
    return (
        f"(CASE {names} ELSE concat(lpad({year}, greatest(char_length({year}), 4), '0'),"
        f" date_format({value}, '-MM-dd'){time},"
        f" CASE WHEN year({value}) > 0 THEN '' ELSE ' BC' END) END)"
    )


def _time(value: str) -> str:
    """Write the time of day; zeros at the end of the fraction, and an empty one, are left out."""
    return rf"regexp_replace(date_format({value}, ' HH:mm:ss.SSSSSS'), '\\.?0+$', '')"
