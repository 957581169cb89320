"""The values that lowering passes around: unfinished queries, their context, the recursion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from pgtrickle.algebra.nodes import Node, Scalar
from pgtrickle.algebra.schema import columns_of
from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.lower.order_joins import build_join_tree
from pgtrickle.sql.lower.subqueries.correlation import Correlation
from pgtrickle.sql.plan_columns import PlanColumns
from pgtrickle.sql.scope import Scope, Typed, typed_column


@dataclass(slots=True)
class Block:
    """Inputs and conditions of a join that has not been built yet."""

    inputs: list[Node] = field(default_factory=list)
    conditions: list[Scalar] = field(default_factory=list)

    def build(self) -> Node:
        """Join the inputs."""
        return build_join_tree(self.inputs, self.conditions)

    def become(self, node: Node) -> None:
        """Replace the inputs by a node that holds all their columns."""
        self.inputs[:] = [node]
        self.conditions.clear()


@dataclass(frozen=True, slots=True)
class Rows:
    """A lowered query: a block and the columns it shows, in order."""

    block: Block
    columns: tuple[tuple[str, Typed], ...]
    carried: tuple[Typed, ...] = ()  # of a dependent query: the outer values of each row


def leaf(columns: PlanColumns, node: Node, names: Sequence[str]) -> Rows:
    """Show the columns of a node under the given names."""
    columns.remember(node)
    shown = tuple(
        (name, typed_column(column)) for name, column in zip(names, columns_of(node), strict=False)
    )
    return Rows(Block([node]), shown)


@dataclass(frozen=True, slots=True)
class Cte:
    """A query of WITH, its column names, and the queries it may name itself."""

    query: exp.Expr
    names: tuple[str, ...]
    known: Ctes
    recursive: bool = False


Ctes = Mapping[str, Cte]


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a query."""

    ctes: Ctes = field(default_factory=dict)
    correlation: Correlation | None = None  # the outer values it depends on


@dataclass(slots=True)
class Frame:
    """A SELECT under construction: its joins, and the meaning of names."""

    block: Block
    scope: Scope
    carried: tuple[Typed, ...] = ()
    attached: dict[str, exp.Expr] = field(default_factory=dict)  # subqueries that are columns now
    correlation: Correlation | None = None  # whose values are carried

    def own(self, scope: Scope) -> Scope:
        """Return a scope without the outer names, which USING and NATURAL do not mean."""
        outer = {alias for alias, _ in self.correlation.references} if self.correlation else ()
        return {alias: names for alias, names in scope.items() if alias not in outer}


class Compiler(Protocol):
    """The recursion, seen from the lowering of one construct."""

    bound: BoundQuery
    columns: PlanColumns

    def query(self, query: exp.Expr, context: Context) -> Rows:
        """Lower any query."""
        ...

    def relation(self, table: exp.Table, context: Context) -> Rows:
        """Lower a single table, view or CTE."""
        ...
