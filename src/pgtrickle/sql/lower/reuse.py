"""Queries that occur several times in one statement: lowered once, computed once.

    WITH x AS (Q) SELECT ... FROM x AS a JOIN x AS b ON ...   =   A(Q) ⋈ B(Q)

A and B give the same operators other column names.  So an aggregate inside Q is one object of the
plan, one stage and one state, wherever its rows are used.  Two queries are the same if their texts
are, with all names resolved, and if every WITH name in them means the same query.  A query that
depends on outer rows is never shared; volatile functions are refused before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from pgtrickle.algebra.nodes import Node, Project, Scalar, Scan
from pgtrickle.algebra.schema import columns_of
from pgtrickle.sql.lower.half_built import Block, Ctes, Rows
from pgtrickle.sql.plan_columns import PlanColumns
from pgtrickle.sql.scalars import bare_column, column_scalar, pass_on, substitute
from pgtrickle.sql.scope import Typed


@dataclass(frozen=True, slots=True)
class _Known:
    """A lowered query, with what makes it that query."""

    query: exp.Expr
    ctes: Ctes
    rows: Rows

    def means(self, query: exp.Expr, ctes: Ctes) -> bool:
        """Tell whether another query has the same text and the same meaning."""
        if _text(self.query) != _text(query):
            return False
        names = {one.name for one in query.find_all(exp.Table) if not one.db}
        return all(self.ctes.get(name) is ctes.get(name) for name in names)


class Reuse:
    """The lowered queries of one statement."""

    def __init__(self, columns: PlanColumns) -> None:
        self._columns = columns
        self._known: dict[int, list[_Known]] = {}  # by the hash of the tree, which is found once

    def query(self, query: exp.Expr, ctes: Ctes, lower: Callable[[], Rows]) -> Rows:
        """Return the rows of an independent query, from an equal one where there is one."""
        for one in self._known.get(hash(query), ()):
            if one.means(query, ctes):
                return self._again(one.rows)
        rows = lower()
        self._known.setdefault(hash(query), []).append(_Known(query, ctes, _kept(rows)))
        return rows

    def _again(self, rows: Rows) -> Rows:
        """Return the same rows under other column names."""
        renamed: dict[str, Scalar] = {}
        inputs = [self._renamed(node, renamed) for node in rows.block.inputs]
        conditions = [substitute(one, renamed) for one in rows.block.conditions]
        columns = tuple(
            (name, Typed(substitute(typed.scalar, renamed), typed.type))
            for name, typed in rows.columns
        )
        return Rows(Block(inputs, conditions), columns)

    def _renamed(self, node: Node, renamed: dict[str, Scalar]) -> Node:
        again = self._scan(node) if isinstance(node, Scan) else self._projection(node)
        for old, new in zip(columns_of(node), again.outputs, strict=True):
            renamed[old.name] = column_scalar(new.name)
        self._columns.remember(again)
        return again

    def _scan(self, scan: Scan) -> Scan:
        """Read the source at another place: filters are pushed into each of them separately."""
        alias = self._columns.fresh(scan.alias)
        outputs = tuple(
            replace(one, name=self._columns.fresh(_of_alias(one.name, scan.alias, alias)))
            for one in scan.outputs
        )
        return replace(scan, alias=alias, outputs=outputs)

    def _projection(self, node: Node) -> Project:
        if isinstance(node, Project) and all(bare_column(one.scalar) for one in node.outputs):
            child, outputs = node.child, node.outputs
        else:
            child, outputs = node, tuple(map(pass_on, columns_of(node)))
        own = tuple(replace(one, name=self._columns.fresh(one.name)) for one in outputs)
        return Project(child, own)


def _of_alias(name: str, old: str, new: str) -> str:
    """Name a column of a scan after the scan's new alias.

    >>> _of_alias("t_id", "t", "t_2")
    't_2_id'
    """
    return f"{new}_{name.removeprefix(f'{old}_')}" if name.startswith(f"{old}_") else name


def _kept(rows: Rows) -> Rows:
    """Return rows that do not change with the block that their first user goes on building."""
    block = Block(list(rows.block.inputs), list(rows.block.conditions))
    return replace(rows, block=block)


def _text(query: exp.Expr) -> str:
    return query.sql(dialect="postgres", identify=True, comments=False)
