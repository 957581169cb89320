"""WITH RECURSIVE: PostgreSQL runs the recursion over its input rows, which are kept as state.

    R   =   μ r. base(S) + step(r, S)          S: the tables and queries that the recursion reads

After deletes and updates the recursion runs again over the kept rows, and the difference from the
stored result is the change: a row that lost one of several derivations needs no
bookkeeping, and cycles cannot go wrong.  After inserts only it is semi-naive, if the recursion
is linear: it starts from the results of the new rows and continues from there,

    ΔR  =   μ r. base(ΔS) + step(R, ΔS) + step(r, S⁺)

so that a new leaf of a large tree costs its own path and not the tree.

SEARCH and CYCLE add columns whose types have no name, and which no table can hold.  So the whole
query whose WITH has them runs in PostgreSQL, over the kept rows of everything that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from pgtrickle.algebra.nodes import (
    INPUT,
    INSERTED,
    STORED,
    Node,
    Output,
    Project,
    Recompute,
    Scalar,
    UnionAll,
)
from pgtrickle.model.sql_type import INTEGER, Column
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.sql.lower.groups.grouping import has_aggregate
from pgtrickle.sql.lower.half_built import Block, Compiler, Context, Cte, Rows, leaf
from pgtrickle.sql.lower.set_returning import constant_rows
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.scalars import null_scalar
from pgtrickle.sql.scope import typed_column
from pgtrickle.sql.text.own_level import has_subquery
from pgtrickle.sql.whole_rows import names_with_row

_PLAIN = {"expressions", "from_", "joins", "where", "kind", "hint"}


@dataclass(frozen=True, slots=True)
class _Input:
    """A relation that the recursion reads: its number, and its columns among the kept ones."""

    number: int
    columns: dict[str, Output]


def lower_recursive(compiler: Compiler, name: str, cte: Cte, context: Context) -> Rows:
    """Lower a CTE that names itself."""
    if context.correlation is not None:
        raise Refusal("a recursive query that depends on outer rows", "recursive")
    return _Recursion(compiler, name, cte).lower()


def lower_searched(compiler: Compiler, query: exp.Expr, context: Context) -> Rows:
    """Lower a query whose WITH has a SEARCH or CYCLE clause."""
    if context.correlation is not None:
        raise Refusal("a recursive query that depends on outer rows", "recursive")
    return _Recursion(compiler, "", Cte(query, (), context.ctes)).lower()


class _Recursion:
    """Lowers a recursive query of WITH, or, where ``name`` is empty, a query as a whole."""

    def __init__(self, compiler: Compiler, name: str, cte: Cte) -> None:
        self._compiler = compiler
        self._columns = compiler.columns
        self._name = name
        self._cte = cte
        self._tag = compiler.columns.fresh("source")
        self._inputs: dict[str, _Input] = {}
        self._children: list[tuple[Node, list[Output]]] = []

    def lower(self) -> Rows:
        inner = {one.alias for one in self._cte.query.find_all(exp.CTE)}
        for table in self._cte.query.find_all(exp.Table):
            named = isinstance(table.this, exp.Identifier)
            own = self._is_self(table) or (not table.db and table.name in inner)
            if named and not own:
                self._keep(table)
                if table.alias_or_name in names_with_row(self._cte.query):
                    name = table.alias_or_name
                    raise Refusal(f'the whole row of "{name}" in a recursive query', name)
        if not self._children:
            # It reads no table, so its rows never change.
            text = self._run(self._cte.query)
            names = [one.name for one in self._columns.query_columns(text)]
            return leaf(self._columns, constant_rows(self._compiler, text, names), names)
        child = self._child()
        body = self._reading(self._cte.query, lambda _: INPUT)
        shown = self._shown(body)
        outputs = tuple(Column(self._columns.fresh(one.name), one.type) for one in shown)
        names = [quote_identifier(one.name) for one in outputs]
        listed = ", ".join(
            f"{quote_identifier(one.name)} AS {new}" for one, new in zip(shown, names, strict=True)
        )
        node = Recompute(
            child,
            (),
            outputs,
            f"SELECT {listed} FROM ({self._run(body, shown)}) AS recursion",
            "recursion",
            self._growth(shown, names),
        )
        self._columns.remember(node)
        columns = tuple(
            (one.name, typed_column(new)) for one, new in zip(shown, outputs, strict=True)
        )
        return Rows(Block([node]), columns)

    # The kept rows

    def _keep(self, table: exp.Table) -> None:
        key = f"{table.db}.{table.name}"
        if key in self._inputs:
            return
        bare = exp.Table(this=table.this.copy(), db=table.args.get("db"))
        rows = self._compiler.relation(bare, Context(self._cte.known))
        outputs = {
            name: Output(self._columns.fresh(f"{table.name}_{name}"), typed.scalar, typed.type)
            for name, typed in rows.columns
        }
        self._inputs[key] = _Input(len(self._inputs), outputs)
        self._children.append((rows.block.build(), list(outputs.values())))

    def _child(self) -> Node:
        """Return the rows of all inputs in one, each with its number and its own columns."""
        everything = [one for _, outputs in self._children for one in outputs]
        branches: list[Node] = []
        for number, (node, own) in enumerate(self._children):
            mine = {one.name for one in own}
            outputs = [Output(self._tag, Scalar(str(number)), INTEGER)]
            outputs += [
                one if one.name in mine else Output(one.name, null_scalar(one.type), one.type)
                for one in everything
            ]
            branches.append(Project(node, tuple(outputs)))
        child = UnionAll(tuple(branches)) if len(branches) > 1 else branches[0]
        self._columns.remember(child)
        return child

    # The queries that PostgreSQL runs

    def _is_self(self, table: exp.Table) -> bool:
        return not table.db and table.name == self._name

    def _reading(self, query: exp.Expr, relation: Callable[[exp.Table], str]) -> exp.Expr:
        """Return a query that reads kept rows in place of relations."""

        def replace(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Table) or self._is_self(node):
                return node
            one = self._inputs.get(f"{node.db}.{node.name}")
            if one is None:
                return node
            return self._derived(node, one, relation(node))

        return query.copy().transform(replace)

    def _derived(self, table: exp.Table, one: _Input, relation: str) -> exp.Expr:
        select = exp.Select(
            expressions=[
                exp.alias_(_column(output.name), name, quoted=True)
                for name, output in one.columns.items()
            ],
            from_=exp.From(this=exp.to_table(relation)),
            where=exp.Where(
                this=exp.EQ(this=_column(self._tag), expression=exp.Literal.number(one.number))
            ),
        )
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        derived = exp.Subquery(this=select, alias=alias.copy())
        if joins := table.args.get("joins"):
            derived.set("joins", joins)
        return derived

    def _run(self, body: exp.Expr, shown: Sequence[Column] = ()) -> str:
        names = [one.name for one in shown] or list(self._cte.names)
        listed = f" ({', '.join(map(quote_identifier, names))})" if names else ""
        text = body.sql(dialect="postgres")
        if not self._name:
            return f"SELECT * FROM ({text}) AS searched{listed}"
        own = quote_identifier(self._name)
        return f"WITH RECURSIVE {own}{listed} AS ({text}) SELECT * FROM {own}"

    def _shown(self, body: exp.Expr) -> tuple[Column, ...]:
        """Ask PostgreSQL for the columns of the recursion."""
        nulls = [f"NULL::integer AS {quote_identifier(self._tag)}"]
        nulls += [
            f"NULL::{one.type.display} AS {quote_identifier(one.name)}"
            for _, outputs in self._children
            for one in outputs
        ]
        return self._columns.query_columns(
            f"WITH {INPUT} AS (SELECT {', '.join(nulls)}) SELECT * FROM ({self._run(body)}) AS r"
        )

    # Semi-naive

    def _growth(self, shown: Sequence[Column], stored: Sequence[str]) -> str:
        """Write the query for the rows that new rows add; empty if only a new run is right."""
        query = self._cte.query.unnest()
        if not self._name or not isinstance(query, exp.Union) or query.args.get("with_"):
            return ""
        every = not query.args.get("distinct")
        base, step = query.left.unnest(), query.right.unnest()
        if not (self._is_linear(base, own=0) and self._is_linear(step, own=1)):
            return ""
        sources = [
            [t for t in part.find_all(exp.Table) if not self._is_self(t)] for part in (base, step)
        ]
        if every and any(len(tables) > 1 for tables in sources):
            return ""  # a new pair of new rows would be counted twice
        seeds = [self._with_new(base, index) for index, _ in enumerate(sources[0])]
        seeds += [
            self._from_stored(step, index, shown, stored) for index, _ in enumerate(sources[1])
        ]
        if not seeds:
            return ""
        word = "UNION ALL" if every else "UNION"
        seed = f" {word} ".join(f"({one})" for one in seeds)
        further = self._reading(step, lambda _: INPUT).sql(dialect="postgres")
        names = ", ".join(quote_identifier(one.name) for one in shown)
        known = f"SELECT {', '.join(stored)} FROM {STORED}"
        own = quote_identifier(self._name)
        if not every:
            seed = f"SELECT * FROM ({seed}) AS seed EXCEPT {known}"
        grown = (
            f"WITH RECURSIVE {own} ({names}) AS (({seed}) {word} ({further}))"
            f" SELECT {names} FROM {own}"
        )
        listed = ", ".join(
            f"{quote_identifier(one.name)} AS {new}" for one, new in zip(shown, stored, strict=True)
        )
        grown = f"SELECT {listed} FROM ({grown}) AS grown"
        return grown if every else f"{grown} EXCEPT {known}"

    def _is_linear(self, part: exp.Expr, own: int) -> bool:
        """Tell whether a part of the recursion only joins, filters and computes."""
        if not isinstance(part, exp.Select) or has_aggregate(part):
            return False
        if any(value and name not in _PLAIN for name, value in part.args.items()):
            return False
        pieces = [*part.expressions, *(w.this for w in [part.args.get("where")] if w)]
        if any(has_subquery(piece) or piece.find(exp.Window) for piece in pieces):
            return False
        if any(join.side for join in part.find_all(exp.Join)) or part.find(exp.Lateral, exp.Unnest):
            return False
        if any(isinstance(one.this, exp.Query) for one in part.find_all(exp.Subquery)):
            return False
        tables = list(part.find_all(exp.Table))
        if any(not isinstance(table.this, exp.Identifier) for table in tables):
            return False
        return sum(map(self._is_self, tables)) == own

    def _with_new(self, part: exp.Expr, chosen: int) -> str:
        """Write a part of the recursion with one of its relations restricted to new rows."""
        return self._variant(part, chosen).sql(dialect="postgres")

    def _from_stored(
        self, step: exp.Expr, chosen: int, shown: Sequence[Column], stored: Sequence[str]
    ) -> str:
        """Write the step from the stored rows to the rows that one relation's new rows add."""
        listed = ", ".join(
            f"{old} AS {quote_identifier(one.name)}" for one, old in zip(shown, stored, strict=True)
        )
        known: exp.Expr = sqlglot.parse_one(f"SELECT {listed} FROM {STORED}", dialect="postgres")

        def replace(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Table) and self._is_self(node):
                alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name))
                derived = exp.Subquery(this=known.copy(), alias=alias.copy())
                if joins := node.args.get("joins"):
                    derived.set("joins", joins)
                return derived
            return node

        return self._variant(step, chosen).transform(replace).sql(dialect="postgres")

    def _variant(self, part: exp.Expr, chosen: int) -> exp.Expr:
        seen = -1

        def relation(_: exp.Table) -> str:
            nonlocal seen
            seen += 1
            return INSERTED if seen == chosen else INPUT

        return self._reading(part, relation)


def _column(name: str) -> exp.Expr:
    return exp.column(exp.to_identifier(name, quoted=True))
