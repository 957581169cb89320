"""The current time in SQL text: where it stands, and a fixed moment in its place.

PostgreSQL prints a function of the current time in few forms, and so does the writer of scalars.
All of them follow from one moment, the start of the transaction. So a mark takes the place of
each, and a refresh fills in the moment that it recorded (see docs/adr/0048).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from pgtrickle.sql.text.placeholders import fill, find

# The time of the contents that the refresh starts from, and of those that it leaves.
BEFORE_MARK, AFTER_MARK = ":time_before", ":time_after"
TIME_MARKS = rf"{BEFORE_MARK}\b|{AFTER_MARK}\b"
# Forms with a precision are not among them: the parser library drops that of some.
_TIME = (
    r"(?i:(?<![\w$.:])(?:(?P<word>CURRENT_TIMESTAMP|CURRENT_DATE|LOCALTIMESTAMP|LOCALTIME)(?![\w$(])"
    r"|(?:now|transaction_timestamp|statement_timestamp)\(\)))"
)
_CASTS = {"CURRENT_DATE": "date", "LOCALTIMESTAMP": "timestamp", "LOCALTIME": "time"}


@dataclass(frozen=True, slots=True)
class Moments:
    """The time of the old contents, and of the new ones, as SQL."""

    before: str = "pg_catalog.now()"
    after: str = "pg_catalog.now()"

    @classmethod
    def between(cls, before: datetime | None, after: datetime | None) -> Moments:
        """Write two moments; without one the present takes its place."""
        present = cls()
        return cls(
            present.before if before is None else time_literal(before),
            present.after if after is None else time_literal(after),
        )

    def at(self, mark: str) -> str:
        """Return the moment for a mark."""
        return self.before if mark == BEFORE_MARK else self.after


PRESENT = Moments()


def time_literal(moment: datetime) -> str:
    """Write a moment, in a form that every DateStyle reads.

    >>> time_literal(datetime(2026, 3, 1, 12, 0, 0, 5, UTC))
    "'2026-03-01 12:00:00.000005+00:00'::pg_catalog.timestamptz"
    """
    return f"'{moment.astimezone(UTC).isoformat(sep=' ')}'::pg_catalog.timestamptz"


@lru_cache(maxsize=4096)
def count_times(sql: str) -> int:
    """Count the functions of the current time in a text.

    >>> count_times("ts > now() AND d = CURRENT_DATE AND note = 'now()' AND a.now() = b")
    2
    """
    return len(find(sql, _TIME))


@lru_cache(maxsize=4096)
def mark_times(sql: str, mark: str) -> str:
    """Put a mark in the place of the current time.

    >>> mark_times('"d" < CURRENT_DATE - 3 AND "ts" > now()', AFTER_MARK)
    '"d" < (:time_after::pg_catalog.date) - 3 AND "ts" > :time_after'
    """

    def write(match: re.Match[str]) -> str:
        cast = _CASTS.get((match["word"] or "").upper())
        return mark if cast is None else f"({mark}::pg_catalog.{cast})"

    return fill(sql, _TIME, write)


def hold_time(sql: str, moment: datetime) -> str:
    """Put a moment in the place of the current time.

    >>> hold_time("SELECT now()", datetime(2026, 3, 1, tzinfo=UTC))
    "SELECT '2026-03-01 00:00:00+00:00'::pg_catalog.timestamptz"
    """
    literal = time_literal(moment)
    return fill_times(mark_times(sql, AFTER_MARK), Moments(literal, literal))


def fill_times(sql: str, moments: Moments) -> str:
    """Replace the marks by moments.

    >>> fill_times('"ts" > :time_after', PRESENT)
    '"ts" > pg_catalog.now()'
    """
    return fill(sql, TIME_MARKS, lambda match: moments.at(match.group()))
