"""A consumer that holds what it was told: the contents at one position, and every change after."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.labs.lab import Lab, Row


@dataclass(frozen=True)
class Change:
    """One change, with the texts of the values of its rows."""

    outbox_id: int
    row_number: int
    op: str
    key: str | None
    before: Row | None
    after: Row | None


class Replica:
    """The rows of a stream table as texts, kept by nothing but its outbox."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.name = lab, name
        self.rows: Counter[Row] = Counter()
        self.last_id = 0
        self.bootstrap()

    def bootstrap(self) -> None:
        """Take the contents and the position, which one snapshot shows."""
        connection = self.lab.connection
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        self.last_id = self.lab.value(
            f"SELECT last_id FROM pgtrickle.outbox_position('{self.name}')"
        )
        self.rows = Counter(self._contents())
        connection.execute("COMMIT")

    def follow(self) -> list[Change]:
        """Apply what has been appended since; return it."""
        after = f"'{self.name}', {self.last_id + 1}"
        entries = self.lab.connection.execute(
            f"SELECT outbox_id, reset FROM pgtrickle.outbox_entries({after})".encode()
        ).fetchall()
        if not entries:
            return []
        changes = self._read(f"pgtrickle.outbox_rows({after}, {entries[-1][0]})")
        for outbox_id, reset in entries:
            assert outbox_id == self.last_id + 1
            own = [one for one in changes if one.outbox_id == outbox_id]
            self._apply(own, reset=reset)
            self.last_id = outbox_id
        assert {one.outbox_id for one in changes} <= {outbox_id for outbox_id, _ in entries}
        return changes

    def _apply(self, changes: list[Change], *, reset: bool) -> None:
        assert [one.row_number for one in changes] == list(range(1, len(changes) + 1))
        if reset:
            self.rows.clear()
        keys = [one.key for one in changes if one.key is not None]
        assert len(keys) == len(set(keys)), "a key occurs once in an entry"
        ranks = [{"delete": 0, "update": 1, "insert": 2}[one.op] for one in changes]
        assert ranks == sorted(ranks)
        for one in changes:
            present = {"insert": (False, True), "delete": (True, False), "update": (True, True)}
            assert (one.before is not None, one.after is not None) == present[one.op]
            if one.before is not None:
                assert self.rows[one.before] > 0, f"{one.before} goes and is not there"
                self.rows[one.before] -= 1
            if one.after is not None:
                self.rows[one.after] += 1
        self.rows += Counter()  # drops what has no copies left

    def check(self) -> None:
        """Compare with the stream table."""
        present = Counter(self._contents())
        assert (self.rows - present, present - self.rows) == (Counter(), Counter())

    def _columns(self) -> list[Row]:
        return self.lab.connection.execute(
            "SELECT quote_ident(attname), quote_literal(attname),"
            " format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            [self.name],
        ).fetchall()

    def _contents(self) -> list[Row]:
        listed = ", ".join(f"{name}::text" for name, _, _ in self._columns())
        return self.lab.rows(f"SELECT {listed} FROM {self.name}")

    def _read(self, changes: str) -> list[Change]:
        """Read each value back as its type, and show it as the contents show it."""
        columns = self._columns()
        before, after = (
            ", ".join(f"(({row} ->> {text})::{type_})::text" for _, text, type_ in columns)
            for row in ("r.before", "r.after")
        )
        found = self.lab.connection.execute(
            f"SELECT outbox_id, row_number, op, key::text, before IS NOT NULL, after IS NOT NULL,"
            f" {before}, {after} FROM {changes} AS r".encode()
        ).fetchall()
        width = len(columns)
        return [
            Change(
                row[0],
                row[1],
                row[2],
                row[3],
                row[6 : 6 + width] if row[4] else None,
                row[6 + width :] if row[5] else None,
            )
            for row in found
        ]
