"""Make a text that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pgtrickle.sql.text.lexer import placed_tokens
from tests.fuzz.hostile.judge import Judged
from tests.fuzz.hostile.texts import HostileText

_TRIES = 400


def shrink(
    text: HostileText, judged: Judged, judge: Callable[[HostileText], Judged]
) -> HostileText:
    """Leave out words, long runs of them first."""
    tries = 0
    parts = _split(text.sql)
    run = max(1, len(parts) // 2)
    while run:
        at = 0
        while at < len(parts) and tries < _TRIES:
            tries += 1
            fewer = parts[:at] + parts[at + run :]
            smaller = replace(text, sql="".join(fewer))
            if fewer and _same(judge(smaller), judged):
                parts, text = fewer, smaller
            else:
                at += run
        run //= 2
    return text


def _same(one: Judged, other: Judged) -> bool:
    return one.verdict is other.verdict and one.reason[:30] == other.reason[:30]


def _split(sql: str) -> list[str]:
    found, at = [], 0
    for _, start, end in placed_tokens(sql):
        found += [sql[at:start], sql[start:end]]
        at = end
    return [part for part in (*found, sql[at:]) if part]
