"""A receiver that holds what it was told, and knows how often."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from psycopg.types.json import Jsonb

from pgtrickle.relay.envelopes import Envelope, Received, decode
from pgtrickle.relay.messages import Op, Place
from tests.labs.lab import Lab


class Receiver:
    """The rows of a stream table, kept by nothing but messages of which each counts once."""

    def __init__(self, envelope: Envelope = Envelope.PLAIN) -> None:
        self.envelope = envelope
        self.rows: Counter[str] = Counter()
        self.place: Place | None = None
        self.repeated = 0
        self.late: list[str] = []  # dead letters that were replayed

    def take(self, texts: Iterable[str | bytes]) -> list[Received]:
        """Apply messages; one that was seen before changes nothing."""
        received = [decode(text, self.envelope) for text in texts]
        for one in received:
            if one.replayed:
                self.late.append(one.id)
                continue
            if self.place is not None and one.place <= self.place:
                self.repeated += 1
                continue
            self.place = one.place
            self._apply(one)
        return received

    def _apply(self, one: Received) -> None:
        if one.op is Op.RESET:
            self.rows.clear()
            return
        present = {
            Op.READ: (False, True),
            Op.INSERT: (False, True),
            Op.UPDATE: (True, True),
            Op.DELETE: (True, False),
        }
        assert (one.before is not None, one.after is not None) == present[one.op]
        if one.before is not None:
            assert self.rows[_text(one.before)] > 0, f"{one.before} goes and is not there"
            self.rows[_text(one.before)] -= 1
        if one.after is not None:
            self.rows[_text(one.after)] += 1

    def check(self, lab: Lab, name: str) -> None:
        """Compare with the stream table: each value by its type's own text."""
        columns = lab.connection.execute(
            "SELECT quote_ident(attname), quote_literal(attname),"
            " format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [name],
        ).fetchall()
        told = [json.loads(row) for row in (+self.rows).elements()]
        values = ", ".join(f"((d.row ->> {text})::{type_})::text" for _, text, type_ in columns)
        held = lab.connection.execute(
            f"SELECT {values} FROM jsonb_array_elements(%s) AS d (row)".encode(), [Jsonb(told)]
        ).fetchall()
        listed = ", ".join(f"{column}::text" for column, _, _ in columns)
        present = lab.rows(f"SELECT {listed} FROM {name}")
        missing, extra = Counter(present) - Counter(held), Counter(held) - Counter(present)
        assert (missing, extra) == (Counter(), Counter())


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)
