"""Parse PostgreSQL's rendering of a query; spellings that the parser cannot read are rewritten.

Two spellings are affected at the beginning of a join in parentheses: ``(LATERAL f(x) ...``,
where the word says nothing that the names inside do not say, and ``(unnest(x) ...``.  The same word
before ROWS FROM is affected everywhere.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlglot
from sqlglot import Token, Tokenizer, TokenType, exp

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.sql.text.own_aggregates import mark_aggregates
from pgtrickle.sql.text.postgres_dialect import PrintedPostgres

_BEFORE_AN_ITEM = {TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.L_PAREN}


def parse_bound(sql: str, aggregates: Collection[QualifiedName] = ()) -> exp.Expr:
    """Parse a query that PostgreSQL printed; ``aggregates`` are those that users defined.

    >>> query = parse_bound("SELECT 1 FROM t, (LATERAL unnest(t.a) u(x) JOIN v ON v.x = u.x)")
    >>> query.sql(dialect="postgres")
    'SELECT 1 FROM t, (pg_catalog.UNNEST(t.a) AS u(x) JOIN v ON v.x = u.x)'
    """
    tokens = Tokenizer(dialect="postgres").tokenize(sql)
    parts, position = [], 0
    for index, token in enumerate(tokens):
        if index < 2 or not (_opens_join(tokens, index) or _is_before_rows(tokens, index)):
            continue
        lateral = token.token_type is TokenType.LATERAL
        name = tokens[index + 1] if lateral and index + 1 < len(tokens) else token
        if lateral:
            parts.append(sql[position : token.start])
            position = name.start
        if name.text.lower() == "unnest":
            parts += [sql[position : name.start], "pg_catalog."]
            position = name.start
    parts.append(sql[position:])
    tree = sqlglot.parse_one("".join(parts), dialect=PrintedPostgres)
    return mark_aggregates(tree, aggregates)


def _is_before_rows(tokens: list[Token], index: int) -> bool:
    """Tell whether a token is LATERAL before ROWS FROM."""
    following = [token.text.upper() for token in tokens[index + 1 : index + 3]]
    return tokens[index].token_type is TokenType.LATERAL and following == ["ROWS", "FROM"]


def _opens_join(tokens: list[Token], index: int) -> bool:
    """Tell whether a token is the first one inside parentheses that may hold a join."""
    return (
        tokens[index - 1].token_type is TokenType.L_PAREN
        and tokens[index - 2].token_type in _BEFORE_AN_ITEM
        and (
            tokens[index].token_type is TokenType.LATERAL or tokens[index].text.lower() == "unnest"
        )
    )
