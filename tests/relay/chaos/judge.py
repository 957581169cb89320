"""What a consumer finds in a stream after a chaos run, and whether it is the stream table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgtrickle.relay.envelopes import Envelope, Received, decode
from pgtrickle.relay.messages import Op, Place


@dataclass(frozen=True, slots=True)
class Verdict:
    """Figures of a run; ``lost`` and ``extra`` are rows in which consumer and table differ."""

    messages: int
    duplicates: int
    out_of_order: int
    lost: int
    extra: int

    def good(self, *, exact: bool) -> bool:
        """Tell whether all that was promised was kept."""
        wrong = self.lost + self.extra + self.out_of_order
        return not wrong and not (exact and self.duplicates)


def judge(partitions: Sequence[Sequence[bytes]], table: Counter[str]) -> Verdict:
    """Rebuild the table as a consumer does: each message once, by its id."""
    seen: set[str] = set()
    latest: dict[str, Place] = {}
    fresh: list[Received] = []
    duplicates = out_of_order = 0
    for partition in partitions:
        for text in partition:
            one = decode(text, Envelope.PLAIN)
            if one.id in seen:
                duplicates += 1
                continue
            seen.add(one.id)
            key = json.dumps(one.key, default=str)
            if key in latest and one.place < latest[key]:
                out_of_order += 1
            latest[key] = max(one.place, latest.get(key, one.place))
            fresh.append(one)
    rows: Counter[str] = Counter()
    for one in sorted(fresh, key=lambda found: found.place):
        if one.op is Op.RESET:
            rows.clear()
        if one.before is not None:
            rows[row_text(one.before)] -= 1
        if one.after is not None:
            rows[row_text(one.after)] += 1
    lost, extra = (table - rows).total(), (rows - table).total()
    return Verdict(len(fresh), duplicates, out_of_order, lost, extra)


def row_text(row: dict[str, Any]) -> str:
    """Return a row as a text that can be compared."""
    return json.dumps(row, sort_keys=True, default=str)
