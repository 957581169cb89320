"""Find every reason why no delta can be derived from a query, not only the first.

Lowering stops at the first construct that no rule covers. To find the others, a refused query is
taken apart and each part is lowered alone: the sides of a set operation, the queries in FROM and
WITH, the tables of FROM, each condition, each column, and each clause at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import psycopg
from psycopg import Connection
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pgtrickle.binding.bind import Binding, concerns_query
from pgtrickle.errors import TrickleError, UnsupportedExpressionError
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.service.compile import build, function_refusals
from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.refusal import Refusal, unsupported
from pgtrickle.sql.text.parse_bound import parse_bound

_MAX_PARTS = 60  # each costs a few statements to PostgreSQL
_CLAUSES = ("limit", "offset", "fetch", "distinct", "having", "group", "windows", "laterals")
_ANY_TYPE = SqlType("integer", "int4", "N")  # the types of a part's own columns do not matter


def find_refusals(connection: Connection, binding: Binding, user_sql: str) -> list[TrickleError]:
    """Return the refusals of a query, each reason once; the first is the one that creation names.

    Empty if the query can be maintained. Runs inside the caller's transaction, under the
    ``search_path`` of a compilation.
    """
    found: dict[str, TrickleError] = {}
    for refusal in function_refusals(binding):
        found.setdefault(str(refusal), unsupported(refusal, user_sql))
    whole = _try(connection, binding.query)
    if whole is None:
        return list(found.values())
    found.setdefault(str(whole), _as_error(whole, user_sql))
    for number, part in enumerate(_parts(binding.query)):
        if number >= _MAX_PARTS:
            break
        if (reason := _try(connection, part)) is not None and not _dangling(reason):
            found.setdefault(str(reason), _as_error(reason, user_sql))
    return list(found.values())


def _try(connection: Connection, query: BoundQuery) -> Refusal | UnsupportedExpressionError | None:
    try:
        with connection.transaction():
            build(connection, query)
    except (Refusal, UnsupportedExpressionError) as reason:
        return reason
    except (TrickleError, psycopg.Error, ValueError, LookupError) as error:
        if isinstance(error, psycopg.Error) and not concerns_query(error):
            raise
        # A part alone may be meaningless; then it gives no reason either.
        return None
    return None


def _as_error(reason: Refusal | UnsupportedExpressionError, user_sql: str) -> TrickleError:
    return unsupported(reason, user_sql) if isinstance(reason, Refusal) else reason


def _dangling(reason: Exception) -> bool:
    """Return whether a part was refused only because it refers to something outside itself."""
    return isinstance(reason, Refusal) and reason.construct.startswith("the reference")


def _parts(query: BoundQuery) -> Iterator[BoundQuery]:
    try:
        tree = parse_bound(query.sql, query.aggregates)
    except (SqlglotError, RecursionError):
        return
    for part in _queries(tree):
        columns = tuple(
            Column(f"c{number}", _ANY_TYPE) for number, _ in enumerate(part.selects or [exp.null()])
        )
        yield replace(query, sql=part.sql(dialect="postgres"), columns=columns)


def _queries(tree: exp.Expr) -> Iterator[exp.Query]:
    """Yield the parts of a query that can stand alone."""
    for query in tree.find_all(exp.Query):
        if isinstance(query, exp.SetOperation):
            yield _bare(query)
        elif isinstance(query, exp.Select):
            if query is not tree:
                yield query.copy()
            yield from _select_parts(query)


def _bare(query: exp.SetOperation) -> exp.Query:
    copy = query.copy()
    for clause in ("limit", "offset", "fetch"):
        copy.set(clause, None)
    return copy


def _select_parts(select: exp.Select) -> Iterator[exp.Select]:
    only_from = _only_from(select)
    if select.args.get("from_") is None:
        return
    yield only_from
    for join in select.args.get("joins") or ():
        alone = exp.select("1")
        alone.set("from_", exp.From(this=join.this.copy()))
        yield alone
    for expression in select.expressions:
        one = only_from.copy()
        one.set("expressions", [expression.copy()])
        if group := select.args.get("group"):
            one.set("group", group.copy())
        yield one
    where = select.args.get("where")
    for condition in where.this.flatten() if where else ():
        yield only_from.where(condition.copy())
    for clause in _CLAUSES:
        if select.args.get(clause):
            one = only_from.copy()
            one.set(clause, select.args[clause].copy())
            yield one


def _only_from(select: exp.Select) -> exp.Select:
    bare = exp.select("1")
    for clause in ("with_", "from_", "joins"):
        if value := select.args.get(clause):
            copied = [one.copy() for one in value] if isinstance(value, list) else value.copy()
            bare.set(clause, copied)
    return bare
