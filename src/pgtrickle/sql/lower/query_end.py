"""The ending of a query: DISTINCT, DISTINCT ON, and ORDER BY with LIMIT, OFFSET or FETCH.

ORDER BY alone says nothing about which rows a table holds.  With LIMIT it chooses them: the first
rows of the whole input, or, inside a dependent subquery, of the rows for each outer value.  Rows
that ORDER BY leaves tied are ordered by all their columns, so that the choice is the same each
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pgtrickle.algebra.nodes import (
    INPUT,
    Aggregate,
    Output,
    Project,
    Recompute,
    Scalar,
    UnionAll,
)
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.sql_type import INTEGER, Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.sql.lower.half_built import Block, Compiler, Context, Rows
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import null_scalar
from pgtrickle.sql.scope import Typed, typed_column
from pgtrickle.sql.text.own_level import named

# Types without an order (pg_type.typname).
_UNORDERED = frozenset({"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle"})


@dataclass(frozen=True, slots=True)
class Sort:
    """One item of ORDER BY: which column, and how."""

    index: int  # of the extended SELECT list
    how: str  # COLLATE, DESC, NULLS FIRST, as PostgreSQL writes them


@dataclass(frozen=True, slots=True)
class Ending:
    """How a query ends; the expressions it needs are columns of the extended SELECT list."""

    visible: int  # the number of columns that the query shows; the others serve only the ending
    distinct: bool = False
    distinct_on: tuple[int, ...] = ()
    sorts: tuple[Sort, ...] = ()
    limit: str | None = None
    offset: str | None = None
    ties: bool = False
    counts: tuple[tuple[str, exp.Expr], ...] = ()  # LIMIT and OFFSET by a subquery
    places: tuple[tuple[str, int], ...] = ()  # those of a dependent query, as columns of its list


def read_ending(query: exp.Expr, *, dependent: bool = False) -> tuple[Ending, list[exp.Expr]]:
    """Return the ending of a query and the expressions that its SELECT list lacks for it.

    ``dependent`` says that the query may name outer columns, also in LIMIT and OFFSET.
    """
    selected = list(query.selects) if isinstance(query, exp.Query) else []
    texts = [one.unalias().sql(dialect="postgres") for one in selected]
    extra: list[exp.Expr] = []

    def place(expression: exp.Expr) -> int:
        inner = _bare(expression)
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return int(inner.this) - 1
        text = inner.sql(dialect="postgres")
        known = [*texts, *(one.sql(dialect="postgres") for one in extra)]
        if text not in known:
            extra.append(inner.copy())
            known.append(text)
        return known.index(text)

    counts = tuple(_counts(query))
    distinct = query.args.get("distinct") if isinstance(query, exp.Select) else None
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    limit, ties = _limit(query)
    offset = query.args.get("offset")
    if offset is not None and offset.expression.sql() == "0":
        offset = None
    order = query.args.get("order")
    needs_order = on is not None or limit is not None or offset is not None
    return (
        Ending(
            len(selected),
            distinct=distinct is not None and on is None,
            distinct_on=tuple(place(one) for one in on.expressions) if on is not None else (),
            sorts=tuple(_sort(one, place) for one in order.expressions)
            if order is not None and needs_order
            else (),
            limit=limit,
            offset=offset.expression.sql(dialect="postgres") if offset is not None else None,
            ties=ties,
            counts=() if dependent else counts,
            places=tuple((clause, place(one)) for clause, one in counts) if dependent else (),
        ),
        extra,
    )


def limits_by_rows(query: exp.Expr) -> bool:
    """Tell whether LIMIT or OFFSET depends on rows, of a subquery or of an outer query."""
    return any(True for _ in _counts(query))


def _counts(query: exp.Expr) -> Iterator[tuple[str, exp.Expr]]:
    for clause in ("limit", "offset"):
        value = query.args.get(clause)
        if value is None or value.find(exp.Query, exp.Column) is None:
            continue
        number = value.args.get("count") if isinstance(value, exp.Fetch) else value.expression
        if number is not None:
            yield clause, exp.cast(_bare(number).copy(), "bigint")


def _limit(query: exp.Expr) -> tuple[str | None, bool]:
    limit = query.args.get("limit")
    if limit is None:
        return None, False
    if isinstance(limit, exp.Fetch):
        options = limit.args.get("limit_options")
        count = limit.args.get("count")
        ties = bool(options and options.args.get("with_ties"))
        return (count.sql(dialect="postgres") if count is not None else "1"), ties
    number = limit.expression.unnest()
    if isinstance(number, exp.Var) and number.name.upper() == "ALL":
        return None, False
    if isinstance(number, exp.Null) or (
        isinstance(number, exp.Cast) and isinstance(number.this, exp.Null)
    ):
        return None, False
    return limit.expression.sql(dialect="postgres"), False


def _sort(item: exp.Expr, place: Callable[[exp.Expr], int]) -> Sort:
    ordered = item if isinstance(item, exp.Ordered) else exp.Ordered(this=item)
    expression = ordered.this
    mark = exp.column("x")
    shown = ordered.copy()
    if isinstance(inner := _bare(expression), exp.Collate):
        collated = exp.Collate(this=mark, expression=inner.expression.copy())
        shown.set("this", collated)
        expression = inner.this
    else:
        shown.set("this", mark)
    how = shown.sql(dialect="postgres").removeprefix("x").strip()
    return Sort(place(expression), how)


def _bare(expression: exp.Expr) -> exp.Expr:
    """Remove parentheses, but not those of a subquery."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    return expression


def end(compiler: Compiler, rows: Rows, ending: Ending, context: Context) -> Rows:
    """Apply the ending of a query to its rows, whose columns are the extended SELECT list."""
    if ending.distinct:
        rows = distinct_rows(compiler, rows)
    if ending.distinct_on:
        rows = _distinct_on(compiler, rows, ending)
    if ending.limit is not None or ending.offset is not None:
        rows = _first_rows(compiler, rows, ending, context)
    return Rows(rows.block, rows.columns[: ending.visible], rows.carried)


def distinct_rows(compiler: Compiler, rows: Rows) -> Rows:
    """Keep each row once."""
    carried = _outputs(compiler, [("outer", typed) for typed in rows.carried])
    keys = _outputs(compiler, rows.columns)
    node = Aggregate(
        Project(rows.block.build(), carried + keys),
        tuple(key.column for key in carried + keys),
        calls=(),
    )
    compiler.columns.remember(node)
    return Rows(Block([node]), _shown(rows.columns, keys), _typed(carried))


def _distinct_on(compiler: Compiler, rows: Rows, ending: Ending) -> Rows:
    """Keep the first row of each group."""
    if not ending.sorts:
        raise Refusal(
            "DISTINCT ON without ORDER BY",
            "distinct on",
            hint="Say with ORDER BY which row of a group comes first.",
        )
    carried = _outputs(compiler, [("outer", typed) for typed in rows.carried])
    own = _outputs(compiler, rows.columns)
    child = Project(rows.block.build(), carried + own)
    keys = tuple(one.column for one in (*carried, *(own[index] for index in ending.distinct_on)))
    unique = tuple({key.name: key for key in keys}.values())
    first = ", ".join(quote_identifier(key.name) for key in unique)
    order = [quote_identifier(key.column.name) for key in carried]
    order += _order(own, ending) + _tie_breakers(own)
    listed = ", ".join(quote_identifier(column.name) for column in columns_of(child))
    sql = f"SELECT DISTINCT ON ({first}) {listed} FROM {INPUT} ORDER BY {', '.join(order)}"
    node = Recompute(child, unique, columns_of(child), sql, "distinct on")
    compiler.columns.remember(node)
    return Rows(Block([node]), _shown(rows.columns, own), _typed(carried))


def _first_rows(compiler: Compiler, rows: Rows, ending: Ending, context: Context) -> Rows:
    """Keep the rows that LIMIT, OFFSET and FETCH choose."""
    if not ending.sorts and ending.limit != "0":
        raise Refusal(
            "LIMIT without ORDER BY",
            "limit",
            "fetch",
            "offset",
            hint="Say with ORDER BY which rows come first; without it any rows are an answer.",
        )
    carried = _outputs(compiler, [("outer", typed) for typed in rows.carried])
    own = _outputs(compiler, rows.columns)
    if ending.counts:
        return _counted_rows(compiler, rows, own, ending, context)
    ending = _with_counts(ending, {clause: _quoted(own[index]) for clause, index in ending.places})
    child = Project(rows.block.build(), carried + own)
    keys = tuple(one.column for one in carried)
    outputs = columns_of(child)
    listed = ", ".join(quote_identifier(column.name) for column in outputs)
    sql = _limited(listed, own, ending) if not keys else _limited_by_key(listed, keys, own, ending)
    node = Recompute(child, keys, outputs, sql, "top-k")
    compiler.columns.remember(node)
    return Rows(Block([node]), _shown(rows.columns, own), _typed(carried))


def _counted_rows(
    compiler: Compiler, rows: Rows, own: tuple[Output, ...], ending: Ending, context: Context
) -> Rows:
    """Keep as many rows as a subquery says.

    The answer of the subquery is one more row of the input, with a number of its own.
    """
    select = exp.Select(expressions=[named(one, clause) for clause, one in ending.counts])
    counts = compiler.query(select, Context(context.ctes))
    found = _outputs(compiler, counts.columns)
    tag = Output(compiler.columns.fresh("source"), Scalar("0"), INTEGER)
    child = UnionAll(
        (
            Project(rows.block.build(), (tag, *own, *map(_null, found))),
            Project(
                counts.block.build(), (replace(tag, scalar=Scalar("1")), *map(_null, own), *found)
            ),
        )
    )
    compiler.columns.remember(child)
    ending = _with_counts(
        ending,
        {
            clause: f"SELECT {_quoted(one)} FROM {INPUT} WHERE {_quoted(tag)} = 1"
            for (clause, _), one in zip(ending.counts, found, strict=True)
        },
    )
    sql = _limited(", ".join(map(_quoted, own)), own, ending, f" WHERE {_quoted(tag)} = 0")
    node = Recompute(child, (), tuple(one.column for one in own), sql, "top-k")
    compiler.columns.remember(node)
    return Rows(Block([node]), _shown(rows.columns, own))


def _with_counts(ending: Ending, texts: Mapping[str, str]) -> Ending:
    return replace(
        ending,
        limit=texts.get("limit", ending.limit),
        offset=texts.get("offset", ending.offset),
    )


def _quoted(output: Output) -> str:
    return quote_identifier(output.name)


def _null(output: Output) -> Output:
    return replace(output, scalar=null_scalar(output.type))


def _limited(listed: str, own: Sequence[Output], ending: Ending, where: str = "") -> str:
    order = _order(own, ending) + ([] if ending.ties else _tie_breakers(own))
    sql = f"SELECT {listed} FROM {INPUT}{where}"
    sql += f" ORDER BY {', '.join(order)}" if order else ""
    sql += f" OFFSET ({ending.offset})" if ending.offset is not None else ""
    if ending.limit is None:
        return sql
    if ending.ties:
        return f"{sql} FETCH FIRST ({ending.limit}) ROWS WITH TIES"
    return f"{sql} LIMIT ({ending.limit})"


def _limited_by_key(
    listed: str, keys: Sequence[Column], own: Sequence[Output], ending: Ending
) -> str:
    """Keep the rows of each partition that LIMIT would keep, by row number."""
    partition = ", ".join(quote_identifier(key.name) for key in keys)
    order = _order(own, ending)
    number = ", ".join(order + _tie_breakers(own)) or partition
    offset = f"COALESCE({ending.offset}, 0)" if ending.offset is not None else "0"
    conditions = [f"__number > {offset}"]
    if ending.limit is not None:
        last = "__rank" if ending.ties else "__number"
        conditions.append(f"({ending.limit} IS NULL OR {last} <= {offset} + ({ending.limit}))")
    return (
        f"SELECT {listed} FROM (SELECT {listed},"
        f" row_number() OVER (PARTITION BY {partition} ORDER BY {number}) AS __number,"
        f" rank() OVER (PARTITION BY {partition} ORDER BY {', '.join(order) or partition})"
        f" AS __rank FROM {INPUT}) AS numbered WHERE {' AND '.join(conditions)}"
    )


def _order(own: Sequence[Output], ending: Ending) -> list[str]:
    return [f"{quote_identifier(own[sort.index].name)} {sort.how}".strip() for sort in ending.sorts]


def _tie_breakers(own: Sequence[Output]) -> list[str]:
    return [
        quote_identifier(one.name)
        for one in own
        if one.type.base.removeprefix("_") not in _UNORDERED and one.type.category != "C"
    ]


def _outputs(compiler: Compiler, columns: Sequence[tuple[str, Typed]]) -> tuple[Output, ...]:
    return tuple(
        Output(compiler.columns.fresh(name), typed.scalar, typed.type) for name, typed in columns
    )


def _shown(
    columns: Sequence[tuple[str, Typed]], outputs: Sequence[Output]
) -> tuple[tuple[str, Typed], ...]:
    return tuple((name, typed_column(one)) for (name, _), one in zip(columns, outputs, strict=True))


def _typed(outputs: Sequence[Output]) -> tuple[Typed, ...]:
    return tuple(typed_column(one) for one in outputs)
