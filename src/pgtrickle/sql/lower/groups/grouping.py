"""Split expressions over groups into keys, aggregate calls, and expressions over both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from pgtrickle.algebra.nodes import (
    Aggregate,
    AggregateCall,
    Node,
    Output,
    Project,
    Scalar,
    UnionAll,
)
from pgtrickle.model.sql_type import BOOLEAN, Column
from pgtrickle.sql.lower.subqueries.correlation import Correlation
from pgtrickle.sql.plan_columns import PlanColumns, unique
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import bare_column, make_scalar, null_scalar
from pgtrickle.sql.scope import Scope, Typed, refuse_in_scalar, resolve, typed_column
from pgtrickle.sql.spread import SPREADS, added_and_others, is_added
from pgtrickle.sql.text.own_aggregates import OwnAggregate
from pgtrickle.sql.text.own_level import replace_nodes

# What SQL/JSON's aggregates with ABSENT ON NULL and WITH UNIQUE KEYS stand for.
_JSON_WITH_OPTIONS = frozenset(
    {"json_agg_strict", "jsonb_agg_strict", "json_object_agg_strict", "jsonb_object_agg_strict",
     "json_object_agg_unique", "jsonb_object_agg_unique", "json_object_agg_unique_strict",
     "jsonb_object_agg_unique_strict"}
)  # fmt: skip
# The results of these depend on the order of the rows, which is undefined unless the query
# says ORDER BY inside the call.
ORDERED = frozenset(
    {"array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg",
     "xmlagg", "any_value", "json_arrayagg", "json_objectagg", *_JSON_WITH_OPTIONS}
)  # fmt: skip
# Aggregates that the parser treats as ordinary functions ...
_OF_ONE = frozenset({"every", "variance"})  # with the one operand that other calls have
_UNPARSED = (
    _OF_ONE | {"jsonb_agg", "xmlagg", "range_agg", "range_intersect_agg"} | _JSON_WITH_OPTIONS
)
# ... and those that it knows by WITHIN GROUP.
_WITHIN_GROUP = frozenset(
    {"mode", "percentile_cont", "percentile_disc", "rank", "dense_rank", "percent_rank",
     "cume_dist"}
)  # fmt: skip


class Grouping:
    """Splits expressions over groups into keys, aggregate calls and expressions over them."""

    def __init__(
        self,
        columns: PlanColumns,
        scope: Scope,
        keys: Sequence[Scalar],
        carried: Sequence[Typed] = (),
    ) -> None:
        self._columns = columns
        self._scope = scope
        outer = [typed.scalar for typed in carried]
        self._keys = {
            key.sql: columns.output(_key_name(key), key) for key in unique([*outer, *keys])
        }
        self._carried = [self._keys[key.sql] for key in outer]
        self._arguments: dict[str, Output] = {}
        self._calls: dict[tuple[str, str | None], AggregateCall] = {}

    def rewrite(self, expression: exp.Expr) -> Scalar:
        """Express ``expression`` over the columns of the aggregate."""
        refuse_in_scalar(expression)
        return make_scalar(replace_nodes(expression, self._replacement))

    @property
    def carried(self) -> tuple[Typed, ...]:
        """The outer values of a dependent query, as keys of its groups."""
        return tuple(typed_column(key) for key in self._carried)

    def node(self, child: Node) -> Aggregate:
        """Build the aggregate with all keys and calls that ``rewrite`` found."""
        return Aggregate(Project(child, self._inputs()), self._key_columns(), self._all_calls())

    def node_with_absent(self, child: Node, correlation: Correlation) -> Aggregate:
        """Build an aggregate without GROUP BY that has one row for every outer value.

        The outer values are added as rows that no call counts, so that each has its group.
        """
        present = self._columns.fresh("present")
        instance, _, typed = correlation.instance(self._columns)
        absent = {
            key.name: Output(key.name, one.scalar, key.type)
            for key, one in zip(self._carried, typed, strict=True)
        }
        empty = tuple(
            absent.get(one.name) or Output(one.name, null_scalar(one.type), one.type)
            for one in self._inputs()
        )
        union = UnionAll(
            (
                Project(child, (*self._inputs(), Output(present, Scalar("TRUE"), BOOLEAN))),
                Project(instance, (*empty, Output(present, Scalar("FALSE"), BOOLEAN))),
            )
        )
        calls = tuple(
            replace(call, condition=call.condition or present) for call in self._all_calls()
        )
        return Aggregate(union, self._key_columns(), calls)

    def _inputs(self) -> tuple[Output, ...]:
        inputs = {output.name: output for output in self._keys.values()}
        inputs |= {output.name: output for output in self._arguments.values()}
        return tuple(inputs.values())

    def _key_columns(self) -> tuple[Column, ...]:
        return tuple(key.column for key in self._keys.values())

    def _all_calls(self) -> tuple[AggregateCall, ...]:
        return tuple(self._calls.values())

    def _replacement(self, expression: exp.Expr) -> exp.Expr | None:
        if isinstance(expression, exp.Grouping):
            return exp.cast(exp.Literal.number(0), "int")  # every key of the one grouping is there
        if is_call(expression):
            return exp.column(exp.to_identifier(self._call(expression).name, quoted=True))
        if has_aggregate(expression):
            return None
        scalar = resolve(expression, self._scope)
        if not scalar.columns:
            return expression.copy()
        if (key := self._find_key(scalar)) is not None:
            return exp.column(exp.to_identifier(key.name, quoted=True))
        if isinstance(expression, exp.Column):
            # PostgreSQL accepted it, so the keys determine it: one more key changes nothing.
            return self._add_key(scalar)
        return None

    def _find_key(self, scalar: Scalar) -> Output | None:
        return self._keys.get(scalar.sql)

    def _add_key(self, scalar: Scalar) -> exp.Expr:
        key = self._keys[scalar.sql] = self._columns.output(_key_name(scalar), scalar)
        return exp.column(exp.to_identifier(key.name, quoted=True))

    def _call(self, expression: exp.Expr) -> AggregateCall:
        condition = None
        if isinstance(expression, exp.Filter):
            condition = self._argument(expression.expression.this, "filter").name
            expression = expression.this
        if any(is_call(node) for node in _inside(expression)):
            raise Refusal("an aggregate inside an aggregate", "sum", "count")
        _refuse_open(expression)
        rewritten, arguments = self._with_arguments(expression.copy())
        if not arguments and function_name(expression) != "count":
            arguments = (self._argument(exp.true(), "arg").column,)  # its rows are counted
        sql = rewritten.sql(dialect="postgres")
        if (sql, condition) not in self._calls:
            self._calls[sql, condition] = self._make_call(rewritten, sql, arguments, condition)
        return self._calls[sql, condition]

    def _make_call(
        self, call: exp.Expr, sql: str, arguments: tuple[Column, ...], condition: str | None
    ) -> AggregateCall:
        function = function_name(call)
        whole = _only_operand(call) is not None
        ordered = call.find(exp.Order) is not None
        distinct = call.find(exp.Distinct) is not None
        (typed,) = self._columns.typed([Scalar(sql, tuple(one.name for one in arguments))])
        return AggregateCall(
            self._columns.fresh(_short_name(function)),
            function,
            sql,
            arguments,
            condition,
            whole=whole,
            plain=not distinct and not ordered and not isinstance(call, exp.WithinGroup),
            distinct=distinct,
            type=typed.type,
        )

    def _with_arguments(self, call: exp.Expr) -> tuple[exp.Expr, tuple[Column, ...]]:
        """Name the inputs of a call: its single argument, or otherwise each column."""
        operand = _only_operand(call)
        if operand is not None and (parts := self._added_parts(call, operand)):
            operand.replace(exp.column(exp.to_identifier(parts[0].name, quoted=True)))
            return call, tuple(one.column for one in parts)
        if operand is not None:
            output = self._argument(operand, "arg")
            operand.replace(exp.column(exp.to_identifier(output.name, quoted=True)))
            return call, (output.column,)
        found: dict[str, Output] = {}

        def name_column(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Column):
                return node
            output = self._argument(node, "arg")
            found[output.name] = output
            return exp.column(exp.to_identifier(output.name, quoted=True))

        return call.transform(name_column), tuple(one.column for one in found.values())

    def _added_parts(self, call: exp.Expr, operand: exp.Expr) -> list[Output]:
        """Return the inputs of a statistic that follows from sums; none for any other call."""
        function = function_name(call)
        if function not in SPREADS or call.find(exp.Distinct):
            return []
        (typed,) = self._columns.typed([resolve(operand, self._scope)])
        if not is_added(function, typed.type):
            return []
        return [self._argument(one, "arg") for one in added_and_others(operand, typed.type)]

    def _argument(self, expression: exp.Expr, prefix: str) -> Output:
        scalar = resolve(expression, self._scope)
        if scalar.sql not in self._arguments:
            wanted = f"{bare_column(scalar) or prefix}_in"
            self._arguments[scalar.sql] = self._columns.output(wanted, scalar)
        return self._arguments[scalar.sql]


def has_aggregate(expression: exp.Expr) -> bool:
    """Tell whether an expression, or a SELECT at its own level, calls an aggregate function.

    A window function (with OVER) is not one, but its arguments may be.
    """
    if isinstance(expression, exp.Select):
        parts = [*expression.expressions, expression.args.get("having")]
        parts += [expression.args.get("order")]
        return any(part is not None and has_aggregate(part) for part in parts)
    if isinstance(expression, exp.Window):
        function = expression.this
        if isinstance(function, exp.Filter):
            return has_aggregate(function.expression) or _inside_has(function.this)
        others = [one for one in expression.iter_expressions() if one is not function]
        return _inside_has(function) or any(map(has_aggregate, others))
    if is_call(expression):
        return True
    if isinstance(expression, exp.Query):
        return False
    return _inside_has(expression)


def _inside_has(expression: exp.Expr) -> bool:
    inside = (one for one in expression.iter_expressions() if not isinstance(one, exp.Query))
    return any(map(has_aggregate, inside))


def knows_aggregate(name: str) -> bool:
    """Tell whether a call of an aggregate of that name is recognised as one.

    >>> knows_aggregate("string_agg"), knows_aggregate("every"), knows_aggregate("my_own")
    (True, True, False)
    """
    if name in _UNPARSED | _WITHIN_GROUP:
        return True
    for arguments in ("a", "a, b"):
        with suppress(ParseError):
            parsed = sqlglot.parse_one(f"{name}({arguments})", dialect="postgres")
            return isinstance(parsed, exp.AggFunc)
    return False


def is_call(node: exp.Expr) -> bool:
    """Tell whether a node is a call of an aggregate function, with its FILTER or WITHIN GROUP."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _UNPARSED and not isinstance(node.parent, exp.Dot)
    return isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Filter)


def is_windowed(call: exp.Expr) -> bool:
    """Tell whether OVER makes a call, with its FILTER, a window function."""
    above = call.parent
    if isinstance(above, exp.Filter) and above.this is call:
        above = above.parent
    return isinstance(above, exp.Window)


def _inside(call: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes inside a call; WITHIN GROUP encloses its function."""
    heads = (call, call.this) if isinstance(call, exp.WithinGroup) else (call,)
    return (node for node in call.walk() if all(node is not head for head in heads))


def function_name(call: exp.Expr) -> str:
    """Return the name of the function that is called, in small letters, or with its schema."""
    function = call.this if isinstance(call, exp.WithinGroup) else call
    if isinstance(function, OwnAggregate):
        return str(function.this)
    text = function.sql(dialect="postgres")
    return text.split("(", 1)[0].lower()


def lists_values(call: exp.Expr) -> bool:
    """Tell whether the result of a call depends on the order of its values.

    Of an aggregate that is not built in nobody knows.  One WITHIN GROUP has an order.
    """
    if isinstance(call, exp.WithinGroup):
        return False
    return isinstance(call, OwnAggregate) or function_name(call) in ORDERED


def _refuse_open(call: exp.Expr) -> None:
    """Refuse a call that lists its values in no order, unless they are constant."""
    if not lists_values(call) or call.find(exp.Column) is None:
        return
    if call.find(exp.Order) is None and call.find(exp.Distinct) is None:
        function = function_name(call)
        raise Refusal(
            f"{function} without ORDER BY inside it",
            _short_name(function),
            hint=f"Write the order of the values: {function}(... ORDER BY ...).",
        )


def _short_name(function: str) -> str:
    """Return the name without its schema.

    >>> _short_name("string_agg"), _short_name('shop."Total"')
    ('string_agg', 'Total')
    """
    return function.rpartition(".")[2].strip('"')


def _only_operand(call: exp.Expr) -> exp.Expr | None:
    """Return the expression of which a call is a function, DISTINCT or not; None of several."""
    unparsed = isinstance(call, exp.Anonymous) and call.name.lower() not in _OF_ONE
    if unparsed or isinstance(call, exp.WithinGroup) or call.find(exp.Order):
        return None
    own = isinstance(call, OwnAggregate)
    if own or isinstance(call, exp.Anonymous):
        operand, others = _first(call.expressions), call.expressions[1:]
    else:
        operand = call.this
        others = [v for k, v in call.args.items() if k not in {"this", "big_int"} and v]
    if isinstance(operand, exp.Distinct) and len(operand.expressions) == 1:
        [operand] = operand.expressions
    if operand is None or others or isinstance(operand, exp.Star | exp.Distinct | exp.Variadic):
        return None
    # A row has no type that could be stored, so its columns are stored.
    row = isinstance(operand, exp.Tuple) or operand.sql().upper().startswith("ROW(")
    return None if row or (own and _tables_in(operand) > 1) else operand


def _tables_in(expression: exp.Expr) -> int:
    return len({column.table for column in expression.find_all(exp.Column)})


def _first(expressions: Sequence[exp.Expr]) -> exp.Expr | None:
    return expressions[0] if expressions else None


def _key_name(scalar: Scalar) -> str:
    return f"{bare_column(scalar) or 'key'}_key"
