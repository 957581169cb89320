"""Split expressions over groups into keys, aggregate calls, and what is computed from both."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from pgtrickle.algebra.nodes import Aggregate, AggregateCall, Node, Output, Project, Scalar
from pgtrickle.model.sql_type import SqlType
from pgtrickle.sql.plan_columns import PlanColumns, unique
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import bare_column, column_scalar, make_scalar
from pgtrickle.sql.scope import Scope, refuse_in_scalar, resolve

_AGGREGATES: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
}


class Grouping:
    """Splits expressions over groups into keys, aggregate calls and what is computed from them."""

    def __init__(self, columns: PlanColumns, scope: Scope, keys: Sequence[Scalar]) -> None:
        self._columns = columns
        self._scope = scope
        self._keys = {key.sql: columns.output(_key_name(key), key) for key in unique(keys)}
        self._arguments: dict[str, Output] = {}
        self._calls: dict[tuple[str, str | None, str | None, bool], AggregateCall] = {}

    def rewrite(self, expression: exp.Expr) -> Scalar:
        """Express ``expression`` over the columns of the aggregate."""
        refuse_in_scalar(expression)
        return make_scalar(self._rewrite(expression))

    def node(self, child: Node) -> Aggregate:
        """Build the aggregate with all keys and calls that ``rewrite`` met."""
        inputs = {output.name: output for output in self._keys.values()}
        inputs |= {output.name: output for output in self._arguments.values()}
        return Aggregate(
            Project(child, tuple(inputs.values())),
            tuple(key.column for key in self._keys.values()),
            tuple(self._calls.values()),
        )

    def _rewrite(self, expression: exp.Expr) -> exp.Expr:
        if isinstance(expression, exp.Filter) or type(expression) in _AGGREGATES:
            return exp.column(exp.to_identifier(self._call(expression).name, quoted=True))
        if not has_aggregate(expression):
            scalar = resolve(expression, self._scope)
            if not scalar.columns:
                return expression.copy()
            if (key := self._find_key(scalar)) is not None:
                return exp.column(exp.to_identifier(key.name, quoted=True))
            if isinstance(expression, exp.Column):
                # PostgreSQL accepted it, so the keys determine it: one more key changes nothing.
                return self._add_key(scalar)
        copy = expression.copy()
        for name, value in expression.args.items():
            if isinstance(value, exp.Expr):
                copy.set(name, self._rewrite(value))
            elif isinstance(value, list):
                copy.set(
                    name,
                    [self._rewrite(one) if isinstance(one, exp.Expr) else one for one in value],
                )
        return copy

    def _find_key(self, scalar: Scalar) -> Output | None:
        return self._keys.get(scalar.sql)

    def _add_key(self, scalar: Scalar) -> exp.Expr:
        key = self._keys[scalar.sql] = self._columns.output(_key_name(scalar), scalar)
        return exp.column(exp.to_identifier(key.name, quoted=True))

    def _call(self, expression: exp.Expr) -> AggregateCall:
        condition = None
        if isinstance(expression, exp.Filter):
            condition = self._argument(expression.expression.this, "filter")
            expression = expression.this
        function = _AGGREGATES[type(expression)]
        if expression.expressions or isinstance(expression.this, exp.Order):
            raise Refusal(f"ORDER BY or several arguments inside {function}", function)
        operand, distinct = expression.this, False
        if isinstance(operand, exp.Distinct):
            if len(operand.expressions) != 1:
                raise Refusal(f"{function}(DISTINCT ...) of several columns", function)
            operand, distinct = operand.expressions[0], function not in {"min", "max"}
        argument = None
        if not isinstance(operand, exp.Star):
            argument = self._argument(operand, "arg")
        identity = (
            function,
            argument.name if argument else None,
            condition.name if condition else None,
            distinct,
        )
        if identity not in self._calls:
            name = self._columns.fresh(function)
            type_ = self._call_type(function, argument)
            self._calls[identity] = AggregateCall(
                name,
                function,
                identity[1],
                argument.type if argument else None,
                identity[2],
                distinct,
                type_,
            )
        return self._calls[identity]

    def _argument(self, expression: exp.Expr, prefix: str) -> Output:
        if has_aggregate(expression):
            raise Refusal("an aggregate inside an aggregate", "sum", "count")
        scalar = resolve(expression, self._scope)
        if scalar.sql not in self._arguments:
            wanted = f"{bare_column(scalar) or prefix}_in"
            self._arguments[scalar.sql] = self._columns.output(wanted, scalar)
        return self._arguments[scalar.sql]

    def _call_type(self, function: str, argument: Output | None) -> SqlType:
        text = f"{function}({column_scalar(argument.name).sql if argument else '*'})"
        (typed,) = self._columns.typed([Scalar(text, (argument.name,) if argument else ())])
        return typed.type


def has_aggregate(expression: exp.Expr) -> bool:
    """Tell whether an expression, or a SELECT at its own level, calls an aggregate function."""
    if isinstance(expression, exp.Select):
        parts = [*expression.expressions, expression.args.get("having")]
        return any(part is not None and part.find(*_AGGREGATES) for part in parts)
    return expression.find(*_AGGREGATES) is not None


def _key_name(scalar: Scalar) -> str:
    return f"{bare_column(scalar) or 'key'}_key"
