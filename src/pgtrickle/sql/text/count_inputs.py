"""Count what the steps of a query read, before anything is lowered.

A query that groups, or removes or chooses rows, is a step of its own: it is kept, and each place
that uses it reads its rows as one input, so that using it again costs no more than that.  Any other
CTE or view stands for its tables at each place: ten that each use the one before twice are a
thousand tables, and thirty are more than memory holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from sqlglot import exp

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.bound import BoundQuery, Relation
from pgtrickle.sql.text.limits import MAX_GROUPING_SETS
from pgtrickle.sql.text.own_level import own_nodes
from pgtrickle.sql.text.parse_bound import parse_bound

_KEEPING = ("group", "having", "distinct", "limit", "offset")


@dataclass(slots=True)
class Inputs:
    """What the steps of a query read: tables, and the rows of other steps."""

    all: int = 0  # by all steps together
    most: int = 0  # by one of them


@dataclass(slots=True)
class _Cte:
    """A query of WITH, counted when it is used for the first time."""

    query: exp.Expr
    known: Mapping[str, _Cte]
    inputs: int | None = None


def count_inputs(query: BoundQuery) -> Inputs:
    """Count the inputs of a bound query."""
    count = _Count(query.relations)
    tree = parse_bound(query.sql)
    shown = count.query(tree, {})
    if not _is_kept(tree):
        count.add(shown)
    return count.inputs


class _Count:
    def __init__(self, relations: Mapping[QualifiedName, Relation]) -> None:
        self._relations = relations
        self._views: dict[QualifiedName, int] = {}
        self.inputs = Inputs()

    def add(self, inputs: int) -> None:
        """Count the inputs of one step."""
        self.inputs.all += inputs
        self.inputs.most = max(self.inputs.most, inputs)

    def query(self, query: exp.Expr, ctes: Mapping[str, _Cte]) -> int:
        """Count the steps inside a query; return as how many inputs it counts where it is used."""
        query = query.unnest() if isinstance(query, exp.Subquery) else query
        known = dict(ctes)
        with_clause = query.args.get("with_")
        for cte in with_clause.expressions if with_clause else ():
            known[cte.alias] = _Cte(cte.this, dict(known))
        read = sum(self._parts(query, known))
        if not _is_kept(query):
            return read
        sets = _copies(query)
        for _ in range(sets):
            self.add(read)
        return sets

    def _parts(self, query: exp.Expr, known: Mapping[str, _Cte]) -> Iterator[int]:
        """Yield the inputs at the level of a query."""
        with_clause = query.args.get("with_")
        pending = [(one, 1) for one in query.iter_expressions() if one is not with_clause]
        while pending:
            node, times = pending.pop()
            if isinstance(node, exp.Select | exp.SetOperation):
                yield times * self._used(node, known)
                continue
            if isinstance(node, exp.Table):
                yield times * self._table(node, known)
            times *= _copies(node)
            pending += [(one, times) for one in node.iter_expressions()]

    def _used(self, query: exp.Expr, known: Mapping[str, _Cte]) -> int:
        """Count a query inside another one; as a value or a condition, it is a step."""
        shown = self.query(query, known)
        if _is_kept(query) or _is_in_from(query):
            return shown
        self.add(shown)
        return 1

    def _table(self, table: exp.Table, ctes: Mapping[str, _Cte]) -> int:
        if not table.db and table.name in ctes:
            cte = ctes[table.name]
            if cte.inputs is None:
                cte.inputs = self.query(cte.query, cte.known)
            return cte.inputs
        name = QualifiedName(table.db, table.name)
        relation = self._relations.get(name)
        if relation is None or relation.definition is None:
            return 1
        if name not in self._views:
            self._views[name] = self.query(parse_bound(relation.definition), {})
        return self._views[name]


def _is_kept(query: exp.Expr) -> bool:
    """Tell whether a query is a step whose rows are kept."""
    if isinstance(query, exp.SetOperation):
        united = isinstance(query, exp.Union) and not query.args.get("distinct")
        return not united or any(query.args.get(one) for one in _KEEPING[3:])
    if not isinstance(query, exp.Select):
        return False
    return any(query.args.get(one) for one in _KEEPING) or any(
        isinstance(node, exp.AggFunc | exp.Window)
        for one in query.expressions
        for node in own_nodes(one)
    )


def _is_in_from(query: exp.Expr) -> bool:
    """Tell whether a query is an item of FROM, or an arm of a set operation."""
    above = query.parent
    while isinstance(above, exp.Subquery | exp.Lateral):
        above = above.parent
    return isinstance(above, exp.From | exp.Join | exp.SetOperation | exp.CTE)


def _copies(node: exp.Expr) -> int:
    """Return how many times lowering uses the subtree of a node."""
    if isinstance(node, exp.Select) and (group := node.args.get("group")):
        sets = prod(_sets(one) for one in group.expressions)
        return sets if sets <= MAX_GROUPING_SETS else 1  # more sets are refused elsewhere
    # The right side of a FULL JOIN is needed once for its pairs, once for its unmatched rows.
    return 2 if isinstance(node, exp.Join) and node.side == "FULL" else 1


def _sets(item: exp.Expr) -> int:
    """Return the number of grouping sets of one item of GROUP BY."""
    match item:
        case exp.Rollup():
            return len(item.expressions) + 1
        case exp.Cube():
            return int(2 ** len(item.expressions))
        case exp.GroupingSets():
            return sum(map(_sets, item.expressions))
        case _:
            return 1
