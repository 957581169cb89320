"""PostgreSQL's dialect for text that must be written exactly as it was read.

The parser treats some functions as its own, and then prints another function or reads a
column as a keyword.  Here they are functions like any other.  It does not know ``bit varying``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import TokenType

from pgtrickle.model.compile_steps import check_time
from pgtrickle.sql.text.own_aggregates import OwnAggregate
from pgtrickle.sql.text.printed_syntax import PrintedSyntaxParser

_OTHERWISE = ("DATE_PART", "DATE_BIN", "TO_HEX", "VARIANCE")


# Aggregates of two arguments, which the parser does not expect behind one DISTINCT.
_OF_PAIRS = (
    "CORR", "COVAR_POP", "COVAR_SAMP", "JSONB_OBJECT_AGG", "JSON_OBJECT_AGG", "REGR_AVGX",
    "REGR_AVGY", "REGR_COUNT", "REGR_INTERCEPT", "REGR_R2", "REGR_SLOPE", "REGR_SXX", "REGR_SXY",
    "REGR_SYY",
)  # fmt: skip


def _build_pair(name: str, arguments: list[Any]) -> exp.Expr:
    """Build the call of an aggregate of two arguments, which may be behind one DISTINCT."""
    if len(arguments) == 1:
        return OwnAggregate(this=name.lower(), expressions=arguments)
    call: exp.Expr = PrintedSyntaxParser.FUNCTIONS[name](arguments)
    return call


def _without(functions: dict[str, Any]) -> dict[str, Any]:
    return {name: build for name, build in functions.items() if name not in _OTHERWISE}


class _Parser(PrintedSyntaxParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {
        **_without(PrintedSyntaxParser.FUNCTIONS),
        **{name: partial(_build_pair, name) for name in _OF_PAIRS},
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _without(PrintedSyntaxParser.FUNCTION_PARSERS)

    def _values_to_select(self, values: exp.Values) -> exp.Values:  # type: ignore[override]
        """Leave VALUES as they are; the parser would select a star from them."""
        return values

    def _advance(self, times: int = 1) -> None:
        check_time()  # it tries some texts in several ways
        super()._advance(times)


class _Tokenizer(Postgres.Tokenizer):
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        **Postgres.Tokenizer.KEYWORDS,
        "BIT VARYING": TokenType.VAR,
    }


class PrintedPostgres(Postgres):
    """The dialect in which PostgreSQL prints queries.

    >>> import sqlglot
    >>> sqlglot.parse_one("date_part('year', d)", dialect=PrintedPostgres).sql(dialect="postgres")
    "DATE_PART('year', d)"
    >>> sqlglot.parse_one("b::bit varying(5)", dialect=PrintedPostgres).sql(dialect="postgres")
    'CAST(b AS BIT VARYING(5))'
    >>> sqlglot.parse_one("corr(DISTINCT a, b)", dialect=PrintedPostgres).sql(dialect="postgres")
    'corr(DISTINCT a, b)'
    """

    Tokenizer = _Tokenizer
    Parser = _Parser
