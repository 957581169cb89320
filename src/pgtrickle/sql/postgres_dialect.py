"""PostgreSQL's dialect for text that has to be written again exactly as it was read.

The parser takes some functions for ones of its own, and then prints another function or reads a
column as a word.  Here they are functions like any other.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser

_OTHERWISE = ("DATE_PART", "DATE_BIN", "TO_HEX")


def _without(functions: dict[str, Any]) -> dict[str, Any]:
    return {name: build for name, build in functions.items() if name not in _OTHERWISE}


class _Parser(PostgresParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = _without(PostgresParser.FUNCTIONS)
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = _without(PostgresParser.FUNCTION_PARSERS)


class PrintedPostgres(Postgres):
    """The dialect in which PostgreSQL prints queries.

    >>> import sqlglot
    >>> sqlglot.parse_one("date_part('year', d)", dialect=PrintedPostgres).sql(dialect="postgres")
    "DATE_PART('year', d)"
    """

    Parser = _Parser
