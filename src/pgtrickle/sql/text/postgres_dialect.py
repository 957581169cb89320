"""PostgreSQL's dialect for text that must be written exactly as it was read.

The parser treats some functions as its own, and then prints another function or reads a
column as a keyword.  Here they are functions like any other.  It does not know ``bit varying``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.tokenizer_core import TokenType

from pgtrickle.model.compile_steps import check_time
from pgtrickle.sql.text.printed_syntax import PrintedSyntaxParser

_OTHERWISE = ("DATE_PART", "DATE_BIN", "TO_HEX", "VARIANCE")


def _without(functions: dict[str, Any]) -> dict[str, Any]:
    return {name: build for name, build in functions.items() if name not in _OTHERWISE}


class _Parser(PrintedSyntaxParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = _without(PrintedSyntaxParser.FUNCTIONS)
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
    """

    Tokenizer = _Tokenizer
    Parser = _Parser
