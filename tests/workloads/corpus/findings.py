"""What is known to be amiss with queries of the corpus: a list that is exact, and shall shrink.

``make corpus`` fails both on what the list does not have and on what it has in vain: whoever mends
a rule takes its queries off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from tests.workloads.outcome import Outcome


class Kind(Enum):
    """What may be amiss, the worst first."""

    EXPLODES = "not played, for it takes all time or memory"
    FAILS = "fails or differs"
    REFUSED = "refused: computed as a whole"
    DIGITS = "equal, and not as text"


@dataclass(frozen=True, slots=True)
class Finding:
    """A query that is not as it should be: the reason, and a part of the message it is told by."""

    kind: Kind
    reason: str
    message: str = ""
    engines: tuple[str, ...] = ("duckdb", "postgres", "spark")


KNOWN: dict[str, Finding] = {}


def left_out(engine: str) -> dict[str, Finding]:
    """Return the queries that an engine is spared."""
    return {
        name: known
        for name, known in KNOWN.items()
        if known.kind is Kind.EXPLODES and engine in known.engines
    }


def find(outcome: Outcome) -> Finding | None:
    """Return what is amiss with a query that was played, with the whole message."""
    seen = (
        (Kind.FAILS, outcome.failure),
        (Kind.REFUSED, outcome.refusal),
        (Kind.DIGITS, outcome.text_difference),
    )
    for kind, message in seen:
        if message is not None:
            one_line = " ".join(message.split())
            return Finding(kind, one_line, one_line)
    return None


def surprises(outcomes: Iterable[Outcome], engine: str) -> Iterator[str]:
    """Yield where the outcomes on an engine are not what the list says."""
    for outcome in outcomes:
        found = find(outcome)
        known = KNOWN.get(outcome.query)
        if known is not None and engine not in known.engines:
            known = None
        if known is None and found is not None:
            yield f"new: {outcome.query}: {found.kind.value}: {found.reason}"
        elif known is not None and found is None:
            yield f"mended, take it off the list: {outcome.query}: {known.reason}"
        elif known is not None and found is not None and not _same(known, found):
            yield f"other than on the list: {outcome.query}: {found.kind.value}: {found.reason}"


def _same(known: Finding, found: Finding) -> bool:
    return known.kind is found.kind and known.message in found.message
