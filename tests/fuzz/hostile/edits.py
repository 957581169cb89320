"""The edits that spoil a query: each takes it as words and signs, and a source of choices."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

from pgtrickle.sql.text.lexer import placed_tokens
from tests.fuzz.hostile.expressions import EXPRESSIONS, ITEMS
from tests.fuzz.hostile.words import CHARACTERS, CLAUSES, FUNCTIONS, LITERALS, STATEMENTS, TYPES

Edit = Callable[[random.Random, str, str], str]  # the second text is another valid query


def truncate(source: random.Random, sql: str, _: str) -> str:
    """Leave out the end or the beginning."""
    at = source.randrange(len(sql) + 1)
    return sql[:at] if source.random() < 0.8 else sql[at:]


def remove(source: random.Random, sql: str, _: str) -> str:
    """Leave out a few words."""
    parts = _split(sql)
    start = source.randrange(len(parts))
    del parts[start : start + source.choice((1, 1, 1, 2, 3, 8))]
    return "".join(parts)


def repeat(source: random.Random, sql: str, _: str) -> str:
    """Write some words again, elsewhere."""
    parts = _split(sql)
    start = source.randrange(len(parts))
    run = parts[start : start + source.choice((1, 2, 3, 8))]
    at = source.choice((start, source.randrange(len(parts) + 1)))
    return "".join((*parts[:at], *run * source.choice((1, 1, 1, 2, 50)), *parts[at:]))


def exchange(source: random.Random, sql: str, _: str) -> str:
    """Let two words change places."""
    parts = _split(sql)
    one, other = source.randrange(len(parts)), source.randrange(len(parts))
    parts[one], parts[other] = parts[other], parts[one]
    return "".join(parts)


def splice(source: random.Random, sql: str, other: str) -> str:
    """Put words of another query into this one, or let the other end it."""
    parts, others = _split(sql), _split(other)
    at, start = source.randrange(len(parts) + 1), source.randrange(len(others))
    if source.random() < 0.4:
        return "".join((*parts[:at], *others[start:]))
    return "".join(
        (*parts[:at], *others[start : start + source.choice((1, 2, 5, 20))], *parts[at:])
    )


def put_character(source: random.Random, sql: str, _: str) -> str:
    """Put a character anywhere: a quote, the begin of a comment, something invisible."""
    at = source.randrange(len(sql) + 1)
    return sql[:at] + source.choice(CHARACTERS) + sql[at:]


def put_literal(source: random.Random, sql: str, _: str) -> str:
    """Put a value in the place of a word."""
    return _instead(source, sql, {"word", "number", "text"}, source.choice(LITERALS))


def put_clause(source: random.Random, sql: str, _: str) -> str:
    """Write a clause at the end, or behind any word."""
    clause = source.choice(CLAUSES)
    if source.random() < 0.4:
        return f"{sql} {clause}"
    parts = _split(sql)
    at = source.randrange(len(parts) + 1)
    return "".join((*parts[:at], f" {clause} ", *parts[at:]))


def put_function(source: random.Random, sql: str, _: str) -> str:
    """Call another function, or call one where there was a name."""
    name = source.choice(FUNCTIONS)
    places = [
        (start, end)
        for kind, start, end in placed_tokens(sql)
        if kind == "word" and (sql[end : end + 1] == "(" or source.random() < 0.2)
    ]
    if not places:
        return f"{name}({sql})"
    start, end = source.choice(places)
    called = name if sql[end : end + 1] == "(" else f"{name}({sql[start:end]})"
    return sql[:start] + called + sql[end:]


def put_type(source: random.Random, sql: str, _: str) -> str:
    """Cast a word to another type."""
    places = [(s, e) for kind, s, e in placed_tokens(sql) if kind in {"word", "number", "text"}]
    if not places:
        return sql
    end = source.choice(places)[1]
    return f"{sql[:end]}::{source.choice(TYPES)}{sql[end:]}"


def rename(source: random.Random, sql: str, other: str) -> str:
    """Put a name of another query in the place of one."""
    names = [other[s:e] for kind, s, e in placed_tokens(other) if kind == "word"] or ["x"]
    return _instead(source, sql, {"word"}, source.choice(names))


def other_statement(source: random.Random, sql: str, _: str) -> str:
    """Ask for another statement, alone or beside the query."""
    statement = source.choice(STATEMENTS)
    return source.choice(
        (statement, f"{sql}; {statement}", f"{statement}; {sql}", f"{statement} {sql}",
         f"WITH x AS ({statement}) {sql}", f"SELECT * FROM ({statement}) AS x", f"EXPLAIN {sql}")
    )  # fmt: skip


def put_expression(source: random.Random, sql: str, _: str) -> str:
    """Put an expression around a name or a value, in one of PostgreSQL's many spellings."""
    places = [
        (start, end)
        for kind, start, end in placed_tokens(sql)
        if kind in {"word", "number", "text"}
        and sql[start:end].upper() not in _WORDS
        and sql[end : end + 1] not in {"(", "."}
        and sql[:start].split()[-1:] not in (["AS"], ["FROM"], ["JOIN"])
    ]
    if not places:
        return sql
    start, end = source.choice(places)
    while start and (sql[start - 1].isalnum() or sql[start - 1] in "._"):
        start -= 1
    found = source.choice(EXPRESSIONS).replace("{}", sql[start:end])
    return f"{sql[:start]}({found}){sql[end:]}"


def put_column(source: random.Random, sql: str, _: str) -> str:
    """Select one more column."""
    places = [
        end
        for kind, start, end in placed_tokens(sql)
        if kind == "word" and sql[start:end].upper() == "SELECT"
    ]
    if not places:
        return sql
    at = source.choice(places)
    constant = source.choice(("1", "'a'", "NULL", "1.5", "date '2026-01-01'"))
    added = source.choice(EXPRESSIONS).replace("{}", constant)
    return f"{sql[:at]} {added} AS added,{sql[at:]}"


def put_item(source: random.Random, sql: str, other: str) -> str:
    """Read something more in a FROM."""
    places = [
        end
        for kind, start, end in placed_tokens(sql)
        if kind == "word" and sql[start:end].upper() == "FROM"
    ]
    if not places:
        return sql
    at = source.choice(places)
    return f"{sql[:at]} {source.choice(ITEMS).replace('{}', other)}, {sql[at:]}"


def combine(source: random.Random, sql: str, other: str) -> str:
    """Make one query of two."""
    return source.choice(_COMBINED).replace("{1}", other).replace("{0}", sql)


def put_subquery(source: random.Random, sql: str, other: str) -> str:
    """Put a subquery in the place of a number."""
    subquery = source.choice(
        (f"(SELECT count(*) FROM ({other}) AS counted)", f"(SELECT 1 WHERE EXISTS ({other}))")
    )
    return _instead(source, sql, {"number"}, subquery)


_WORDS = frozenset({
    "SELECT", "FROM", "WHERE", "GROUP", "ORDER", "BY", "AS", "ON", "AND", "OR", "NOT", "JOIN",
    "LEFT", "RIGHT", "FULL", "USING", "HAVING", "WITH", "LIMIT", "OVER", "CASE", "WHEN", "THEN",
    "ELSE", "END", "PARTITION", "ROWS", "RANGE", "BETWEEN", "IN", "IS", "NULL", "UNION", "ALL",
    "DISTINCT", "LATERAL", "VALUES", "ASC", "DESC", "INNER", "CROSS",
})  # fmt: skip
_COMBINED = (
    "SELECT * FROM ({0}) AS a, ({1}) AS b", "SELECT a.* FROM ({0}) AS a WHERE EXISTS ({1})",
    "SELECT a.* FROM ({0}) AS a LEFT JOIN ({1}) AS b ON true", "WITH a AS ({0}), b AS ({1}) SELECT a.* FROM a, b",
    "WITH a AS ({0}) SELECT (SELECT count(*) FROM a) AS n, b.* FROM ({1}) AS b", "({0}) UNION ALL ({1})",
    "SELECT a.*, row_number() OVER () AS nr FROM ({0}) AS a", "SELECT DISTINCT a.* FROM ({0}) AS a",
    "SELECT count(*) AS n, count(DISTINCT a.*) AS d FROM ({0}) AS a", "SELECT to_jsonb(a) AS j FROM ({0}) AS a",
    "SELECT a.* FROM ({0}) AS a ORDER BY 1 LIMIT 3", "SELECT a::text AS t, count(*) AS n FROM ({0}) AS a GROUP BY a",
    "SELECT a.* FROM ({0}) AS a NATURAL FULL JOIN ({1}) AS b", "({0}) EXCEPT ({0})", "({0}) INTERSECT ALL ({0})",
    "SELECT json_agg(a) AS j FROM ({0}) AS a", "SELECT a.* FROM ({0}) AS a FULL JOIN ({1}) AS b ON a = b",
    "SELECT a.* FROM ({0}) AS a WHERE a IN (SELECT b FROM ({0}) AS b)", "SELECT ARRAY(SELECT a FROM ({0}) AS a)::text AS x",
    "SELECT a.* FROM ({0}) AS a, LATERAL ({1}) AS b", "SELECT a.* FROM ({0}) AS a FOR UPDATE",
    "SELECT max(a::text) AS m FROM ({0}) AS a HAVING count(*) > (SELECT count(*) FROM ({1}) AS b)",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION SELECT n + 1 FROM r WHERE n < 5) SELECT r.n, a.* FROM r, ({0}) AS a",
)  # fmt: skip
# What tends to leave a query that PostgreSQL accepts, for the compiler to read.
GENTLE: tuple[Edit, ...] = (
    put_expression, put_expression, put_expression, put_column, put_column, put_item, combine, combine,
    put_subquery,
)  # fmt: skip
EDITS: tuple[Edit, ...] = (
    truncate, remove, repeat, exchange, splice, splice, put_character, put_literal, put_clause, put_clause,
    put_function, put_type, rename, rename, other_statement,
)  # fmt: skip


def _split(sql: str) -> list[str]:
    """Cut a text behind each word and sign; nothing is lost."""
    ends = [end for _, _, end in placed_tokens(sql)]
    cuts = [0, *ends[:-1], len(sql)] if ends else [0, len(sql)]
    return [sql[start:end] for start, end in pairwise(cuts)]


def _instead(source: random.Random, sql: str, kinds: set[str], text: str) -> str:
    places = [(start, end) for kind, start, end in placed_tokens(sql) if kind in kinds]
    if not places:
        return text
    start, end = source.choice(places)
    return sql[:start] + text + sql[end:]
