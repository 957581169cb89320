"""How far a stream table has read its sources."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

NEVER = datetime(9999, 1, 1, tzinfo=UTC)  # when the next change is, if time makes none
_SNAPSHOT = re.compile(r"(\d+):(\d+):((?:\d+(?:,\d+)*)?)")


@dataclass(frozen=True, slots=True)
class PgSnapshot:
    """A PostgreSQL MVCC snapshot, as ``pg_current_snapshot()`` prints it.

    A transaction belongs to a refresh window when the new snapshot sees it and the old one does
    not, in whatever order the two transactions began or committed:

    >>> before, after = PgSnapshot.parse("100:105:101,103"), PgSnapshot.parse("103:110:103")
    >>> [xid for xid in range(99, 111) if after.sees(xid) and not before.sees(xid)]
    [101, 105, 106, 107, 108, 109]
    """

    xmin: int
    xmax: int
    in_progress: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> PgSnapshot:
        """Read the ``xmin:xmax:xip,xip`` form; anything else is a ``ValueError``."""
        match = _SNAPSHOT.fullmatch(text)
        if match is None:
            raise ValueError(f"not a snapshot: {text!r}")
        xmin, xmax, in_progress = match.groups()
        return cls(int(xmin), int(xmax), frozenset(map(int, filter(None, in_progress.split(",")))))

    def sees(self, xid: int) -> bool:
        """Tell whether a transaction had committed when the snapshot was taken."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.in_progress)

    def with_own(self, xid: int) -> PgSnapshot:
        """Return a snapshot that also sees one transaction that began after it was taken.

        >>> snapshot = PgSnapshot.parse("100:105:101").with_own(107)
        >>> str(snapshot), [xid for xid in range(100, 109) if snapshot.sees(xid)]
        ('100:108:101,105,106', [100, 102, 103, 104, 107])
        """
        if xid < self.xmax:
            raise ValueError(f"the transaction {xid} began before the snapshot {self}")
        return PgSnapshot(self.xmin, xid + 1, self.in_progress | frozenset(range(self.xmax, xid)))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.in_progress)))}"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """How far a source outside PostgreSQL was read."""

    kind: str  # of source, such as ``ducklake``
    source: str
    at: int  # the number of a snapshot


@dataclass(frozen=True, slots=True)
class FrontierTime:
    """The current time for which contents hold, and the time zone in which it was read."""

    at: datetime
    zone: str
    next_change_at: datetime | None = None  # when it next changes a row; None: that is not known

    def to_json(self) -> dict[str, object]:
        """Return the value stored in the catalog."""
        found = {"at": self.at.astimezone(UTC).isoformat(), "zone": self.zone}
        if self.next_change_at is not None:
            found["next_change_at"] = self.next_change_at.astimezone(UTC).isoformat()
        return dict(found)

    @classmethod
    def from_json(cls, value: dict[str, object]) -> FrontierTime:
        """Read the output of ``to_json``.

        >>> time = FrontierTime(datetime(2026, 3, 1, 12, 0, 0, 5, UTC), "Europe/Berlin")
        >>> FrontierTime.from_json(time.to_json()) == time
        True
        """
        following = value.get("next_change_at")
        return cls(
            datetime.fromisoformat(str(value["at"])),
            str(value["zone"]),
            None if following is None else datetime.fromisoformat(str(following)),
        )

    def after(self, earlier: FrontierTime | None) -> FrontierTime:
        """Return this time, or the earlier one if the clock stepped back: time only advances."""
        return (
            self
            if earlier is None or earlier.at <= self.at
            else FrontierTime(earlier.at, self.zone)
        )


@dataclass(frozen=True, slots=True)
class Frontier:
    """One past moment of one database, to which a stream table's contents belong.

    Transaction ids mean something only inside the cluster and database they come from, so both
    are part of the value: a frontier that was restored elsewhere is recognised and not used.
    """

    system_identifier: str
    database_oid: int
    snapshot: PgSnapshot
    positions: tuple[Position, ...] = ()  # of sources outside PostgreSQL
    time: FrontierTime | None = None  # if the contents depend on the current time

    def to_json(self) -> dict[str, object]:
        """Return the value stored in the catalog.

        >>> Frontier("7", 5, PgSnapshot.parse("1:1:")).to_json()
        {'pg': {'system_identifier': '7', 'database_oid': 5, 'snapshot': '1:1:'}}
        >>> position = Position("ducklake", "public.t", 9)
        >>> Frontier("7", 5, PgSnapshot.parse("1:1:"), (position,)).to_json()["ducklake"]
        {'public.t': 9}
        """
        kinds: dict[str, dict[str, int]] = {}
        for one in self.positions:
            kinds.setdefault(one.kind, {})[one.source] = one.at
        return {
            "pg": {
                "system_identifier": self.system_identifier,
                "database_oid": self.database_oid,
                "snapshot": str(self.snapshot),
            },
            **kinds,
            **({} if self.time is None else {"time": self.time.to_json()}),
        }

    @classmethod
    def from_json(cls, value: dict[str, dict[str, object]]) -> Frontier:
        """Read the output of ``to_json``.

        >>> position = Position("ducklake", "public.t", 9)
        >>> frontier = Frontier("7", 5, PgSnapshot.parse("1:4:2"), (position,))
        >>> Frontier.from_json(frontier.to_json()) == frontier
        True
        >>> timed = Frontier("7", 5, frontier.snapshot, (), FrontierTime(datetime.now(UTC), "UTC"))
        >>> Frontier.from_json(timed.to_json()) == timed
        True
        """
        pg = value["pg"]
        return cls(
            str(pg["system_identifier"]),
            int(str(pg["database_oid"])),
            PgSnapshot.parse(str(pg["snapshot"])),
            tuple(
                sorted(
                    Position(kind, source, int(str(at)))
                    for kind, sources in value.items()
                    if kind not in {"pg", "time"}
                    for source, at in sources.items()
                )
            ),
            FrontierTime.from_json(value["time"]) if "time" in value else None,
        )

    def same_database(self, other: Frontier) -> bool:
        """Tell whether two frontiers count transactions of the same database."""
        return (self.system_identifier, self.database_oid) == (
            other.system_identifier,
            other.database_oid,
        )
