"""The results of the demo, table by table, and the summary at its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from statistics import quantiles

from pgtrickle.demo.generator import Changes
from pgtrickle.model.report import RefreshReport, VerifyReport
from pgtrickle.model.stream_table import Action


@dataclass(slots=True)
class TableSummary:
    """The refreshes of one stream table, and whether it was right in the end."""

    actions: Counter[Action] = field(default_factory=Counter)
    latencies_ms: list[float] = field(default_factory=list)  # of refreshes that changed something
    rows_inserted: int = 0
    rows_deleted: int = 0
    verified: VerifyReport | None = None

    def add(self, report: RefreshReport) -> None:
        """Count a refresh."""
        self.actions[report.action] += 1
        self.rows_inserted += report.rows_inserted
        self.rows_deleted += report.rows_deleted
        # The first load is no refresh of a maintained table: it would hide the others.
        if report.action is Action.DIFFERENTIAL:
            self.latencies_ms.append(report.duration_ms)

    @property
    def ok(self) -> bool:
        """Whether the stream table equals PostgreSQL's own answer."""
        return self.verified is not None and self.verified.ok

    def to_json(self) -> dict[str, object]:
        """Return what ``pgtrickle demo --json`` prints for the table."""
        return {
            "refreshes": {action.value: count for action, count in self.actions.items()},
            "p50_ms": percentile(self.latencies_ms, 50),
            "p95_ms": percentile(self.latencies_ms, 95),
            "rows_inserted": self.rows_inserted,
            "rows_deleted": self.rows_deleted,
            "verified": self.ok,
            "rows": self.verified.rows if self.verified else None,
            "missing": self.verified.missing if self.verified else None,
            "extra": self.verified.extra if self.verified else None,
        }


@dataclass(slots=True)
class Summary:
    """The whole demo in numbers."""

    tables: dict[str, TableSummary] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    shown: bool = True  # whether what is shown at the end was right

    @property
    def ok(self) -> bool:
        """Whether every stream table equals PostgreSQL's own answer, and the end was right."""
        return self.shown and bool(self.tables) and all(table.ok for table in self.tables.values())

    def of(self, name: str) -> TableSummary:
        """Return the numbers of one stream table."""
        return self.tables.setdefault(name, TableSummary())

    def to_json(self) -> dict[str, object]:
        """Return what ``pgtrickle demo --json`` prints."""
        return {
            "ok": self.ok,
            "seconds": round(self.seconds, 1),
            "changes": asdict(self.changes),
            "stream_tables": {name: table.to_json() for name, table in self.tables.items()},
            "errors": self.errors,
        }


def percentile(values: list[float], percent: int) -> float | None:
    """Return a percentile, None of nothing.

    >>> percentile([10.0, 20.0, 30.0], 50), percentile([7.0], 95), percentile([], 50)
    (20.0, 7.0, None)
    """
    if len(values) < 2:
        return round(values[0], 1) if values else None
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 1)
