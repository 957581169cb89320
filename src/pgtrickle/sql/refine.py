"""Refine a query whose answer SQL leaves open, so that it has one answer (docs/adr/0044).

An aggregate that lists its values, LIMIT, DISTINCT ON, ARRAY(SELECT ...) and row_number() depend on
the order of rows, and a query need not give one, or not down to the last tie.  The refined query
orders by what is left.  Its answer is one of those that PostgreSQL may give, and the only one.

Nothing is added where no tie is possible: behind a unique key of a table, for the columns of that
table; behind all keys of groups; over a single row.  WITH TIES, rank() and frames by RANGE or
GROUPS treat ties as equals on purpose: an order would change what they mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.json_aggregates import in_plain_form
from pgtrickle.sql.lower.groups.grouping import function_name, has_aggregate, lists_values
from pgtrickle.sql.lower.window_functions import expand_named_windows
from pgtrickle.sql.text.own_aggregates import OwnAggregate
from pgtrickle.sql.text.own_level import own_nodes
from pgtrickle.sql.text.postgres_dialect import PrintedPostgres
from pgtrickle.sql.text.printed_syntax import PrintedAggregate

UniqueKeys = Mapping[QualifiedName, Collection[frozenset[str]]]  # of columns without NULL

# The frame has no effect on these, so that an order of ties changes nothing else.
_BY_POSITION = (exp.RowNumber, exp.Ntile, exp.Lag, exp.Lead)
_MARK = re.compile(r"/\* pin (\d{1,6}) \*/")
_WHOLE_PARTITION = exp.WindowSpec(
    kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="UNBOUNDED", end_side="FOLLOWING"
)
_GROUPING_SETS = ("grouping_sets", "cube", "rollup")


@dataclass(slots=True)
class Pin:
    """An item that was added to an ORDER BY."""

    item: exp.Ordered
    value: exp.Expr | None  # what the item stands for; None: only its position can be written

    def by_text(self) -> bool:
        """Order by the text of the value instead; return whether that can be written."""
        present = self.item.this
        if self.value is None or (isinstance(present, exp.Cast) and present.to.is_type("text")):
            return False
        cast = exp.cast(self.value.copy(), "text")
        cast.comments = self.item.this.comments
        self.item.set("this", cast)
        return True


@dataclass(slots=True)
class Refined:
    """A refined query, and what was added to it, in words."""

    tree: exp.Expr
    pins: list[Pin] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    changed: bool = False

    @property
    def sql(self) -> str:
        """The text; a comment behind each pin has its number."""
        return self.tree.sql(dialect="postgres")

    def pin_at(self, position: int) -> Pin | None:
        """Return the pin at a position of the text, which PostgreSQL does not accept."""
        found = _MARK.search(self.sql, position)
        return None if found is None else self.pins[int(found[1])]


def refine(tree: exp.Expr, keys: UniqueKeys) -> Refined:
    """Return the query with its answer pinned; ``tree`` is not changed.

    >>> from pgtrickle.sql.text.parse_bound import parse_bound
    >>> def show(sql):
    ...     return refine(parse_bound(sql), {}).tree.sql(dialect="postgres", comments=False)
    >>> show("SELECT array_agg(a) AS x FROM t GROUP BY b")
    'SELECT ARRAY_AGG(a ORDER BY a) AS x FROM t GROUP BY b'
    >>> show("SELECT xmlagg(a ORDER BY b) AS x FROM t")
    'SELECT XMLAGG(a ORDER BY b, a) AS x FROM t'
    >>> show("SELECT a, b FROM t ORDER BY b LIMIT 2")
    'SELECT a, b FROM t ORDER BY b, 1 LIMIT 2'
    >>> show("SELECT a, row_number() OVER (ORDER BY b) AS n FROM t")
    'SELECT a, ROW_NUMBER() OVER (ORDER BY b, a) AS n FROM t'
    """
    refined = Refined(_without_window_names(tree.copy()))
    refined.changed = in_plain_form(refined.tree)
    for query in list(refined.tree.find_all(exp.Query)):
        level = _Level(refined, query, keys)
        if isinstance(query, exp.Select):
            for call in list(level.find(_is_listing)):
                level.pin_call(call)
            for window in list(level.find(_is_by_position)):
                level.pin_window(window)
            for window in list(level.find(_is_own_over_partition)):
                level.pin_partition(window)
        if isinstance(query, exp.Select | exp.SetOperation):
            level.pin_ending()
    return refined


def _without_window_names(tree: exp.Expr) -> exp.Expr:
    def expand(node: exp.Expr) -> exp.Expr:
        named = isinstance(node, exp.Select) and node.args.get("windows")
        open_ = (_is_by_position(one) or _is_own(one) for one in node.find_all(exp.Window))
        if not named or not any(open_):
            return node
        return expand_named_windows(node)  # type: ignore[arg-type]  # a Select

    return tree.transform(expand, copy=False)


@dataclass(slots=True)
class _Level:
    """One query, without those inside it."""

    refined: Refined
    query: exp.Query
    keys: UniqueKeys

    def find(self, wanted: Callable[[exp.Expr], bool]) -> Iterator[exp.Expr]:
        """Yield the nodes of the query's own clauses that are wanted."""
        for clause in ("expressions", "having", "order", "distinct"):
            value = self.query.args.get(clause)
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, exp.Expr):
                    yield from (node for node in own_nodes(part) if wanted(node))

    def pin_call(self, call: exp.Expr) -> None:
        """Order the values that an aggregate lists."""
        values, order = _parts_of(call)
        given = [] if order is None else [_plain(one) for one in order.expressions]
        missing = [one for one in values if not self._covers(given, one)]
        if not missing:
            return
        self._note(f"{function_name(call)}(...)", missing)
        if order is None:
            listed = ", ".join(one.sql(dialect="postgres") for one in missing)
            text = call.sql(dialect="postgres").rstrip()
            new = sqlglot.parse_one(f"{text[:-1]} ORDER BY {listed})", dialect=PrintedPostgres)
            if isinstance(call, OwnAggregate):
                new = OwnAggregate(this=call.this, expressions=new.expression.expressions)
            call.replace(new)
            order = next(one for one in new.find_all(exp.Order))
            items = order.expressions
        else:
            items = [exp.Ordered(this=one.copy()) for one in missing]
            order.set("expressions", [*order.expressions, *items])
        for item, value in zip(items, missing, strict=True):
            self._add(item, value)

    def pin_window(self, window: exp.Expr) -> None:
        """Order the rows that a function counts through."""
        if self._one_row():
            return
        order = window.args.get("order")
        given = [_plain(one) for one in (order.expressions if order is not None else ())]
        constant = list(window.args.get("partition_by") or ())
        missing = [one for one in self._row() if not self._covers([*given, *constant], one)]
        if not missing:
            return
        self._note(f"{function_name(window.this)}()", missing)
        items = [exp.Ordered(this=one.copy()) for one in missing]
        before = order.expressions if order is not None else []
        window.set("order", exp.Order(expressions=[*before, *items]))
        for item, value in zip(items, missing, strict=True):
            self._add(item, value)

    def pin_partition(self, window: exp.Expr) -> None:
        """Order the values of a partition, of which an aggregate is given all."""
        function = _function_of(window)
        values = [one for one in _parts_of(function)[0] if not self._covers([], one)]
        if not values:
            return
        self._note(f"{function_name(function)}() OVER", values)
        items = [exp.Ordered(this=one.copy()) for one in values]
        window.set("order", exp.Order(expressions=items))
        window.set("spec", _WHOLE_PARTITION.copy())
        for item, value in zip(items, values, strict=True):
            self._add(item, value)

    def pin_ending(self) -> None:
        """Order the rows of which LIMIT, OFFSET, FETCH or DISTINCT ON keep some, or ARRAY all."""
        construct = self._choosing()
        if construct is None:
            return
        order = self.query.args.get("order")
        given = [self._selected(_plain(one)) for one in (order.expressions if order else ())]
        before = list(order.expressions) if order else []
        if order is None and (on := _distinct_on(self.query)):
            given = [self._selected(one) for one in on]
            before = [exp.Ordered(this=one.copy()) for one in on]
        selected = [one.unalias() for one in self.query.selects]
        missing = [n for n, one in enumerate(selected) if not self._covers(given, one)]
        if self._one_row():
            missing = [] if before else [0]  # any order: there is one row
        elif missing:
            self._note(
                construct, [exp.column(self.query.selects[n].alias_or_name) for n in missing]
            )
        plain = isinstance(self.query, exp.Select) and not self.query.args.get("distinct")
        items = []
        for number in missing:
            items.append(exp.Ordered(this=exp.Literal.number(number + 1)))
            free = plain or bool(_distinct_on(self.query))
            self._add(items[-1], selected[number] if free else None)
        if items or (before and order is None):
            self.query.set("order", exp.Order(expressions=[*before, *items]))
            self.refined.changed = True

    def _choosing(self) -> str | None:
        """Return the construct that depends on the order of the rows, or None."""
        if isinstance(self.query.parent, exp.Exists):
            return None
        limit, offset = self.query.args.get("limit"), self.query.args.get("offset")
        if isinstance(limit, exp.Fetch):
            options = limit.args.get("limit_options")
            return None if options and options.args.get("with_ties") else "FETCH"
        if _distinct_on(self.query):
            return "DISTINCT ON"
        if limit is not None and not _is_all(limit.expression):
            return "LIMIT"
        if offset is not None and offset.expression.sql() != "0":
            return "OFFSET"
        return "ARRAY(SELECT ...)" if isinstance(self.query.parent, exp.Array) else None

    def _row(self) -> list[exp.Expr]:
        """Return what tells the rows of a SELECT apart, as far as the query shows them."""
        if (group := self.query.args.get("group")) is not None:
            return [self._selected(one) for one in group.expressions]
        found: dict[str, exp.Expr] = {}
        own = self._tables()
        for part in self.query.expressions:
            for column in part.find_all(exp.Column):
                if isinstance(column.this, exp.Star):
                    continue
                if column.table in own or (not column.table and _level_of(column) is self.query):
                    found.setdefault(column.sql(dialect="postgres"), column)
        return list(found.values())

    def _one_row(self) -> bool:
        clauses = ("group", "having", "distinct")
        return (
            isinstance(self.query, exp.Select)
            and has_aggregate(self.query)
            and not any(self.query.args.get(one) for one in clauses)
        )

    def _selected(self, item: exp.Expr) -> exp.Expr:
        """Return the expression behind a position of the SELECT list."""
        if isinstance(item, exp.Literal) and not item.is_string:
            return self.query.selects[int(item.this) - 1].unalias()
        return item

    def _covers(self, given: Sequence[exp.Expr], value: exp.Expr) -> bool:
        """Tell whether rows that are equal in all that is given have the same value."""
        texts = {one.sql(dialect="postgres") for one in given}
        if value.sql(dialect="postgres") in texts:
            return True
        if self._has_all_groups(texts):
            return True
        if has_aggregate(value) or any(isinstance(one, exp.Query) for one in value.walk()):
            return False
        known = self._tables_of_keys(given)
        return all(
            self._table_of(one) in known or one.sql(dialect="postgres") in texts
            for one in value.find_all(exp.Column)
        ) and not isinstance(value, exp.Window)

    def _has_all_groups(self, texts: Collection[str]) -> bool:
        """Tell whether all keys of GROUP BY are given, so that no two rows are equal."""
        group = self.query.args.get("group")
        if group is None or any(group.args.get(one) for one in _GROUPING_SETS):
            return False
        keys = {self._selected(one).sql(dialect="postgres") for one in group.expressions}
        return bool(keys) and keys <= set(texts)

    def _tables_of_keys(self, given: Iterable[exp.Expr]) -> set[str]:
        """Return the tables of which a unique key is given."""
        columns: dict[str, set[str]] = {}
        for one in given:
            if isinstance(one, exp.Column):
                columns.setdefault(self._table_of(one), set()).add(one.name)
        return {
            alias
            for alias, name in self._tables().items()
            if any(key <= columns.get(alias, set()) for key in self.keys.get(name, ()))
        }

    def _table_of(self, column: exp.Column) -> str:
        tables = self._tables()
        return column.table or (next(iter(tables)) if len(tables) == 1 else "")

    def _tables(self) -> dict[str, QualifiedName]:
        """Return the tables of FROM by their aliases."""
        start = self.query.args.get("from_")
        parts = [start, *(self.query.args.get("joins") or ())]
        return {
            node.alias_or_name: QualifiedName(node.db, node.name)
            for part in parts
            if part is not None
            for node in _tables_in(part)
        }

    def _add(self, item: exp.Ordered, value: exp.Expr | None) -> None:
        item.this.comments = [f"pin {len(self.refined.pins)}"]
        self.refined.changed = True
        pin = Pin(item, value)
        self.refined.pins.append(pin)
        if value is not None and _is_row(value):
            pin.by_text()

    def _note(self, construct: str, values: Sequence[exp.Expr]) -> None:
        listed = ", ".join(one.sql(dialect="postgres") for one in values)
        self.refined.notes.append(f"{construct} leaves an order open; ties are ordered by {listed}")


def _is_listing(node: exp.Expr) -> bool:
    """Tell whether a node is an aggregate, no window function, whose result lists its values."""
    if not isinstance(node, exp.AggFunc | exp.Anonymous) or not lists_values(node):
        return False
    if isinstance(node, PrintedAggregate):
        return False  # an item cannot be put into it
    above = node.parent.parent if isinstance(node.parent, exp.Filter) else node.parent
    placed = isinstance(above, exp.Window) or isinstance(node.parent, exp.WithinGroup | exp.Dot)
    return not placed and node.find(exp.Distinct) is None


def _is_by_position(node: exp.Expr) -> bool:
    """Tell whether a node is a window function that takes one row after the other."""
    if not isinstance(node, exp.Window):
        return False
    spec = node.args.get("spec")
    if isinstance(node.this, _BY_POSITION):
        return True
    if isinstance(node.this, exp.FirstValue) and spec is None:
        return True
    return spec is not None and spec.args.get("kind") == "ROWS" and not spec.args.get("exclude")


def _function_of(window: exp.Expr) -> exp.Expr:
    function: exp.Expr = window.this
    return function.this if isinstance(function, exp.Filter) else function


def _is_own(node: exp.Expr) -> bool:
    """Tell whether a node calls an aggregate that is not built in as a window function."""
    return isinstance(node, exp.Window) and isinstance(_function_of(node), OwnAggregate)


def _is_own_over_partition(node: exp.Expr) -> bool:
    """Tell whether the function of such a call sees the whole partition, in any order."""
    return _is_own(node) and not node.args.get("order") and not node.args.get("spec")


def _parts_of(call: exp.Expr) -> tuple[list[exp.Expr], exp.Order | None]:
    """Return the arguments of an aggregate that are not constant, and its ORDER BY."""
    values: list[exp.Expr] = []
    order: exp.Order | None = None
    for argument in call.iter_expressions():
        one = argument
        if isinstance(one, exp.Order):
            order = one
            one = one.this
        if isinstance(one, exp.Variadic):
            one = one.this
        if one.find(exp.Column) is not None:
            values.append(one)
    return values, order


def _plain(item: exp.Expr) -> exp.Expr:
    value = item.this if isinstance(item, exp.Ordered) else item
    while isinstance(value, exp.Paren):
        value = value.this
    return value


def _distinct_on(query: exp.Expr) -> list[exp.Expr]:
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    return list(on.expressions) if on is not None else []


def _is_all(number: exp.Expr) -> bool:
    """Tell whether LIMIT keeps all rows, or none."""
    number = number.unnest()
    inner = number.this if isinstance(number, exp.Cast) else number
    every = isinstance(number, exp.Var) or isinstance(inner, exp.Null)
    return every or (isinstance(number, exp.Literal) and number.this == "0")


def _is_row(value: exp.Expr) -> bool:
    """Tell whether a value is a row, whose columns may have types without an order."""
    star = isinstance(value, exp.Column) and isinstance(value.this, exp.Star)
    return star or isinstance(value, exp.Tuple) or value.sql().upper().startswith("ROW(")


def _level_of(column: exp.Column) -> exp.Expr | None:
    return column.find_ancestor(exp.Query)


def _tables_in(part: exp.Expr) -> Iterator[exp.Table]:
    if isinstance(part, exp.Select | exp.SetOperation):
        return
    if isinstance(part, exp.Table):
        yield part
    for child in part.iter_expressions():
        yield from _tables_in(child)
