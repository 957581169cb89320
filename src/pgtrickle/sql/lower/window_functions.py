"""Window functions: PostgreSQL recomputes every partition that a change touches.

    ω(Q)   =   ρ[partition keys](Q)

Functions over the same PARTITION BY share one operator; others follow one after the other, each
over the rows of the one before.  Without PARTITION BY the whole input is one partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from pgtrickle.algebra.nodes import INPUT, Output, Project, Recompute, Scalar
from pgtrickle.algebra.schema import columns_of
from pgtrickle.model.sql_type import Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.sql.lower.half_built import Compiler, Frame
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import bare_column, make_scalar, parse_scalar, pass_on
from pgtrickle.sql.text.own_aggregates import OwnAggregate
from pgtrickle.sql.text.own_level import replace_nodes


def has_window(expression: exp.Expr) -> bool:
    """Tell whether an expression calls a window function."""
    return expression.find(exp.Window) is not None


def refuse_windows(expression: exp.Expr) -> None:
    """Refuse windows without a rule: frames whose bounds vary, and an open order.

    Of an aggregate of users nobody knows whether its answer depends on the order of a partition.
    """
    for window in expression.find_all(exp.Window):
        spec = window.args.get("spec")
        if spec is not None and spec.find(exp.Column, exp.Query) is not None:
            raise Refusal(
                "a bound of a window frame by a subquery or an outer value",
                "rows", "range", "groups",
                hint="Write the bound as a constant.",
            )  # fmt: skip
        function = window.this.this if isinstance(window.this, exp.Filter) else window.this
        ordered = window.args.get("order") or function.find(exp.Column) is None
        if isinstance(function, OwnAggregate) and not ordered:
            raise Refusal(
                f"{function.this} OVER without an order of its rows",
                str(function.this).rpartition(".")[2],
                hint="Write ORDER BY into OVER (...), and the frame that you mean.",
            )


def expand_named_windows(select: exp.Select) -> exp.Select:
    """Write the windows of a WINDOW clause where they are used.

    >>> import sqlglot
    >>> query = "SELECT sum(a) OVER w FROM t WINDOW w AS (PARTITION BY b)"
    >>> expand_named_windows(sqlglot.parse_one(query)).sql()
    'SELECT SUM(a) OVER (PARTITION BY b) FROM t'
    """
    named = {window.this.name: window for window in select.args.get("windows") or ()}
    if not named:
        return select
    copy = select.copy()
    copy.set("windows", None)
    for window in list(copy.find_all(exp.Window)):
        if (alias := window.args.get("alias")) is not None and alias.name in named:
            _inherit(window, named[alias.name], named)
    return copy


def _inherit(window: exp.Window, base: exp.Window, named: dict[str, exp.Window]) -> None:
    if (further := base.args.get("alias")) is not None and further.name in named:
        base = base.copy()
        _inherit(base, named[further.name], named)
    for part in ("partition_by", "order", "spec"):
        value = base.args.get(part)
        if value and not window.args.get(part):
            window.set(
                part, [one.copy() for one in value] if isinstance(value, list) else value.copy()
            )
    window.set("alias", None)


def expand_windows(compiler: Compiler, scalars: Sequence[Scalar], frame: Frame) -> list[Scalar]:
    """Return expressions without window functions; their values become columns of the frame."""
    expanded = list(scalars)
    while found := _first_window(expanded):
        partition = _partition(found)
        expanded = _expand(compiler, expanded, frame, partition)
    return expanded


def _first_window(scalars: Sequence[Scalar]) -> exp.Window | None:
    for scalar in scalars:
        window = parse_scalar(scalar.sql).find(exp.Window)
        if window is not None:
            return window
    return None


def _partition(window: exp.Window) -> tuple[str, ...]:
    return tuple(make_scalar(one).sql for one in window.args.get("partition_by") or ())


def _expand(
    compiler: Compiler, scalars: Sequence[Scalar], frame: Frame, partition: tuple[str, ...]
) -> list[Scalar]:
    """Compute all window functions over one PARTITION BY."""
    node = frame.block.build()
    used = {name for scalar in scalars for name in scalar.columns}
    used |= {name for typed in frame.carried for name in typed.scalar.columns}
    kept = [pass_on(column) for column in columns_of(node) if column.name in used]
    keys = [_key(compiler, make_scalar(parse_scalar(sql)), kept) for sql in partition]
    carried = [_key(compiler, typed.scalar, kept) for typed in frame.carried]
    child = Project(node, tuple(kept))
    compiler.columns.remember(child)

    computed: dict[str, tuple[Column, str]] = {}

    def compute(part: exp.Expr) -> exp.Expr | None:
        if not isinstance(part, exp.Window) or _partition(part) != partition:
            return None
        original = make_scalar(part)
        if original.sql not in computed:
            [typed] = compiler.columns.typed([original])
            column = Column(compiler.columns.fresh(_name(part)), typed.type)
            computed[original.sql] = (column, _over(part, [*carried, *keys]))
        return exp.column(exp.to_identifier(computed[original.sql][0].name, quoted=True))

    replaced = [make_scalar(replace_nodes(parse_scalar(one.sql), compute)) for one in scalars]
    columns = columns_of(child)
    listed = [quote_identifier(column.name) for column in columns]
    listed += [f"{sql} AS {quote_identifier(column.name)}" for column, sql in computed.values()]
    unique = {key.name: key for key in (*carried, *keys)}
    recompute = Recompute(
        child,
        tuple(unique.values()),
        (*columns, *(column for column, _ in computed.values())),
        f"SELECT {', '.join(listed)} FROM {INPUT}",
        "window",
    )
    compiler.columns.remember(recompute)
    frame.block.become(recompute)
    return replaced


def _key(compiler: Compiler, scalar: Scalar, kept: list[Output]) -> Column:
    """Return the column of the input that holds a partition key; add it if there is none."""
    name = bare_column(scalar)
    for output in kept:
        if output.name == name or output.scalar.sql == scalar.sql:
            return output.column
    output = compiler.columns.output("partition_key", scalar)
    kept.append(output)
    return output.column


def _over(window: exp.Window, keys: Sequence[Column]) -> str:
    copy = window.copy()
    copy.set("partition_by", [exp.column(exp.to_identifier(k.name, quoted=True)) for k in keys])
    text = copy.sql(dialect="postgres")
    if "IGNORE NULLS" in text:
        raise Refusal("IGNORE NULLS", "ignore nulls")
    return text


def _name(window: exp.Window) -> str:
    return window.this.sql(dialect="postgres").partition("(")[0].lower() or "window"
