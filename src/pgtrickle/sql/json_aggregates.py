"""JSON_ARRAYAGG and JSON_OBJECTAGG, written as the aggregate functions that they stand for.

PostgreSQL evaluates them by ``json_agg``, ``jsonb_object_agg_unique_strict`` and their like, but
JSON_OBJECTAGG has no place for an ORDER BY.  The functions have one, so the refined query calls
them.  JSON_ARRAY(SELECT ...) is printed as JSON_ARRAYAGG over a derived table, in whose order it
lists the values: this order becomes that of the call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from pgtrickle.sql.text.postgres_dialect import PrintedPostgres
from pgtrickle.sql.text.printed_syntax import PrintedAggregate

_OPTIONS = re.compile(
    r"(?P<json>FORMAT JSON )?(?P<nulls>(?:NULL|ABSENT) ON NULL )?(?P<unique>WITH UNIQUE KEYS )?"
    r"RETURNING (?P<type>json|jsonb|text)\)"
)


def in_plain_form(tree: exp.Expr) -> bool:
    """Replace what can be replaced in ``tree``; return whether anything was.

    >>> from pgtrickle.sql.text.parse_bound import parse_bound
    >>> def show(call):
    ...     tree = parse_bound(f"SELECT {call} FROM t")
    ...     return in_plain_form(tree) and tree.expressions[0].sql(dialect="postgres")
    >>> show("JSON_OBJECTAGG(k : v ABSENT ON NULL WITH UNIQUE KEYS RETURNING jsonb)")
    'JSONB_OBJECT_AGG_UNIQUE_STRICT(k, v)'
    >>> show("JSON_ARRAYAGG(v ORDER BY k RETURNING text) FILTER (WHERE b)")
    'CAST(JSON_AGG_STRICT(v ORDER BY k) FILTER(WHERE b) AS TEXT)'
    >>> show("JSON_ARRAYAGG(v FORMAT JSON NULL ON NULL RETURNING json)")
    'JSON_AGG(CAST(v AS JSON))'
    >>> show("JSON_ARRAYAGG(v RETURNING bytea)")
    False
    """
    changed = False
    for call in list(tree.find_all(PrintedAggregate)):
        written = _Call.read(call)
        if written is None or not written.find_order():
            continue
        written.replace()
        changed = True
    return changed


@dataclass(slots=True)
class _Call:
    call: exp.Expr
    function: str
    operands: list[exp.Expr]
    order: exp.Order | None
    type: str

    @classmethod
    def read(cls, call: exp.Expr) -> _Call | None:
        """Take a call apart; None if no function does the same."""
        texts: list[str] = call.args["texts"]
        pairs = texts[0] == "JSON_OBJECTAGG("
        number = 2 if pairs else 1
        operands, others = call.expressions[:number], call.expressions[number:]
        options = _OPTIONS.fullmatch(" ".join("".join(texts[number:]).split()))
        if options is None:
            return None
        if options["json"]:
            operands[-1] = exp.cast(operands[-1].copy(), "json")
        kind = "jsonb" if options["type"] == "jsonb" else "json"
        function = f"{kind}_object_agg" if pairs else f"{kind}_agg"
        function += "_unique" if options["unique"] else ""
        nulls = (options["nulls"] or ("NULL" if pairs else "ABSENT")).split()[0]
        function += "_strict" if nulls == "ABSENT" else ""
        order = others[0] if others else None
        return cls(call, function, operands, order, options["type"])

    def find_order(self) -> bool:
        """Look for the order of a derived table; False if it has one that cannot be written."""
        select = self.call.find_ancestor(exp.Select)
        start = select.args.get("from_") if select is not None else None
        derived = start.this if start is not None else None
        [value, *others] = self.operands
        if self.order is not None or others or not isinstance(derived, exp.Subquery):
            return True
        alias = derived.args.get("alias")
        given = derived.this.args.get("order")
        if given is None or alias is None or len(alias.columns) != 1:
            return True
        if not isinstance(value, exp.Column) or value.table != alias.name:
            return True
        items = [_Item.of(derived.this, one) for one in given.expressions]
        if any(one.added for one in items) and not _may_show_more(derived.this):
            return False
        written = []
        for number, one in enumerate(items, 1):
            column = value
            if one.added:
                name = exp.to_identifier(f"order_{number}")
                derived.this.append("expressions", exp.alias_(one.value.copy(), name.copy()))
                alias.append("columns", name)
                column = exp.column(name.copy(), table=alias.this.copy())
            ordered = one.given.copy()
            ordered.set("this", column.copy())
            written.append(ordered)
        self.order = exp.Order(expressions=written)
        return True

    def replace(self) -> None:
        """Put the call of the function into the place of this one."""
        text = ", ".join(one.sql(dialect="postgres") for one in self.operands)
        if self.order is not None:
            text += f" {self.order.sql(dialect='postgres').strip()}"
        plain = sqlglot.parse_one(f"{self.function}({text})", dialect=PrintedPostgres)
        self.call.replace(plain)
        if self.type != "text":
            return
        # A cast goes around FILTER and OVER.
        outermost = plain
        while isinstance(outermost.parent, exp.Filter | exp.Window):
            outermost = outermost.parent
        outermost.replace(exp.cast(outermost.copy(), "text"))


@dataclass(frozen=True, slots=True)
class _Item:
    """An item of the ORDER BY of a derived table with one column."""

    given: exp.Expr
    value: exp.Expr
    added: bool  # it is not that column

    @classmethod
    def of(cls, query: exp.Query, given: exp.Expr) -> _Item:
        value = given.this
        shown = query.selects[0]
        is_shown = isinstance(value, exp.Literal) and not value.is_string
        is_shown = is_shown or value == shown.unalias()
        is_shown = is_shown or (
            isinstance(value, exp.Column) and not value.table and value.name == shown.alias_or_name
        )
        return cls(given, value, not is_shown)


def _may_show_more(query: exp.Expr) -> bool:
    """Tell whether another column changes nothing about the rows of a query."""
    return isinstance(query, exp.Select) and not query.args.get("distinct")
