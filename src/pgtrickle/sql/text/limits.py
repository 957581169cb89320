"""The limits on the size and depth of a defining query.

The text is measured before PostgreSQL sees it, so that a list of a million literals is refused
at once and not after it was planned and printed.  PostgreSQL's rendering of the text is measured
again: it writes out stars and views, and a flat ``a + b + c`` nests there.  A query that is fine
for PostgreSQL but too deep for the compiler can still be maintained by FULL.
"""

from __future__ import annotations

import re
import sys

from pgtrickle.errors import QuerySyntaxError, QueryTooLargeError
from pgtrickle.sql.refusal import Refusal
from pgtrickle.sql.text.lexer import measure
from pgtrickle.sql.text.rule_tree import CEILING, PlannedSize

MAX_CHARACTERS = 1_000_000
MAX_TOKENS = 20_000  # about 10,000 literals in a list: two seconds of compiling
MAX_BOUND_TOKENS = 2 * MAX_TOKENS  # of the query as PostgreSQL prints it
MAX_DEPTH = 200  # parentheses, CASE; each level is some 40 calls of the parser
MAX_INPUTS = 200  # that one step of a plan reads: each occurs in its query, and in every arm
MAX_ALL_INPUTS = 1_000  # that all steps read together
MAX_TABLES = 1_000  # that PostgreSQL plans at once, after it has inlined views
MAX_JOINED = 64  # of them in one join: a third of a gigabyte while it is planned, under a second
MAX_NODES = 200_000  # of expressions, likewise: a column that is used twice counts twice
MAX_GROUPING_SETS = 64  # each is an aggregate with its own state
MAX_PLAN_COLUMNS = 20_000  # stops names whose expansion doubles at each level
# Room for MAX_DEPTH; with it a runaway recursion still ends in an error, not in a crash.
_RECURSION_LIMIT = 10_000

_NO_TEXT = re.compile("[\0\ud800-\udfff]")


def check_text(user_sql: str) -> None:
    """Refuse a text that is too large or too deep to be read.

    >>> check_text("SELECT " + "(" * 1000 + "1" + ")" * 1000)
    Traceback (most recent call last):
    pgtrickle.errors.QueryTooLargeError: the query nests 1000 levels deep
    """
    _check_characters(user_sql)
    size = measure(user_sql, MAX_TOKENS)
    if size.tokens > MAX_TOKENS:
        raise QueryTooLargeError(
            f"the query has more than {MAX_TOKENS} words and signs",
            hint="Put long lists into a table and join it.",
        )
    if size.depth > MAX_DEPTH:
        raise QueryTooLargeError(
            f"the query nests {size.depth} levels deep",
            hint=f"At most {MAX_DEPTH} are allowed; split it with WITH, views or stream tables.",
        )
    check_planned(PlannedSize(widest=size.joins + 1))


def _check_characters(user_sql: str) -> None:
    if len(user_sql) > MAX_CHARACTERS:
        raise QueryTooLargeError(
            f"the query has {len(user_sql)} characters",
            hint=f"At most {MAX_CHARACTERS} are allowed; put long lists into a table and join it.",
        )
    if wrong := _NO_TEXT.search(user_sql):
        raise QuerySyntaxError(
            f"the query contains the character U+{ord(wrong.group()):04X}, which is not text",
            hint="Remove it from the query.",
        )


def check_bound(sql: str) -> None:
    """Refuse PostgreSQL's rendering if the compiler could not walk through it."""
    size = measure(sql, MAX_BOUND_TOKENS)
    if size.tokens > MAX_BOUND_TOKENS:
        raise Refusal(
            f"a query that PostgreSQL writes in more than {MAX_BOUND_TOKENS} words and signs",
            hint="Simplify it, or use refresh_mode = 'FULL' or 'AUTO'.",
        )
    if size.depth > MAX_DEPTH:
        raise Refusal(
            f"a query that nests {size.depth} levels deep",
            hint=f"At most {MAX_DEPTH} can be maintained; a chain of operators nests too. Split it,"
            " or use refresh_mode = 'FULL' or 'AUTO'.",
        )


def too_deep() -> Refusal:
    """Return the refusal of a query on which the compiler ran out of stack."""
    return Refusal(
        "a query that nests this deep",
        hint="Split it with views or stream tables, or use refresh_mode = 'FULL' or 'AUTO'.",
    )


def check_planned(size: PlannedSize) -> None:
    """Refuse a query that PostgreSQL could not plan in reasonable time and memory.

    >>> check_planned(PlannedSize(tables=199, joined=199, widest=199))
    Traceback (most recent call last):
    pgtrickle.errors.QueryTooLargeError: the query joins 199 tables with one another
    """
    hint = "Split it into stream tables; views and CTEs count each time they are used."
    if size.widest > MAX_JOINED:
        raise QueryTooLargeError(
            f"the query joins {_about(size.widest)} tables with one another",
            hint=f"At most {MAX_JOINED} are allowed. {hint}",
        )
    if size.tables > MAX_TABLES:
        raise QueryTooLargeError(
            f"the query reads {_about(size.tables)} tables",
            hint=f"At most {MAX_TABLES} are allowed. {hint}",
        )
    if size.nodes > MAX_NODES:
        raise QueryTooLargeError(
            f"the query has expressions of {_about(size.nodes)} parts",
            hint="A column of a view or subquery stands for its expression each time it is used."
            f" At most {MAX_NODES} parts are allowed; split the query into stream tables.",
        )


def _about(number: int) -> str:
    return f"{number}" if number < CEILING else f"more than {CEILING}"


def check_inputs(most: int, every: int) -> None:
    """Refuse a plan that reads too many inputs in one of its steps, or in all of them.

    An input is a table, or the rows of another step. A step is compiled once, however often it is
    used; what it reads occurs in its own query, and in every arm of that.
    """
    hint = "A view or CTE that groups counts once; any other one counts for each use, and a query"
    hint += " once for each of its grouping sets. Split it into stream tables."
    if most > MAX_INPUTS:
        raise Refusal(
            f"a query over {_about(most)} tables",
            hint=f"At most {MAX_INPUTS} are maintained. {hint}",
        )
    if every > MAX_ALL_INPUTS:
        raise Refusal(
            f"a query whose steps read {_about(every)} tables",
            hint=f"At most {MAX_ALL_INPUTS} are maintained. {hint}",
        )


def too_many_columns() -> Refusal:
    """Return the refusal of a plan whose tables have too many columns in total."""
    return Refusal(
        f"a query that becomes more than {MAX_PLAN_COLUMNS} columns",
        hint="Views and CTEs stand for their text each time they are used; make a stream table of"
        " what is used often.",
    )


def allow_depth() -> None:
    """Give the recursive compiler room for ``MAX_DEPTH``, in this process and from now on.

    The limit is never lowered again: another thread may be in the middle of a compilation.
    """
    if sys.getrecursionlimit() < _RECURSION_LIMIT:
        sys.setrecursionlimit(_RECURSION_LIMIT)
