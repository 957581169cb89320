"""What came of many cases: counts by outcome, by reason, by feature."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.cases import Case
from tests.fuzz.play import Outcome, Played


@dataclass
class Tally:
    """Counts over cases; two of them add up."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reasons: Counter[tuple[Outcome, str]] = field(default_factory=Counter)
    drawn: Counter[str] = field(default_factory=Counter)  # features of all cases ...
    compiled: Counter[str] = field(default_factory=Counter)  # ... and of those that held
    failures: list[tuple[int, Played, Path | None]] = field(default_factory=list)

    def add(self, case: Case, played: Played) -> None:
        """Count one case."""
        self.outcomes[played.outcome] += 1
        self.drawn.update(case.features)
        if played.outcome is Outcome.HELD:
            self.compiled.update(case.features)
        elif not played.outcome.failure:
            self.reasons[played.outcome, played.reason] += 1

    def merge(self, other: Tally) -> None:
        """Count what another has counted."""
        self.outcomes += other.outcomes
        self.reasons += other.reasons
        self.drawn += other.drawn
        self.compiled += other.compiled
        self.failures += other.failures

    @property
    def cases(self) -> int:
        """How many cases were counted."""
        return self.outcomes.total()

    def line(self) -> str:
        """Return the counts by outcome on one line."""
        return ", ".join(f"{self.outcomes[outcome]} {outcome.value}" for outcome in Outcome)

    def show(self, console: Console) -> None:
        """Print everything: features that no case exercised, reasons, counts."""
        table = Table("feature", "drawn", "held", box=None)
        for feature, drawn in sorted(self.drawn.items()):
            table.add_row(feature, str(drawn), str(self.compiled[feature]))
        console.print(table)
        for (outcome, reason), number in self.reasons.most_common():
            console.print(f"{number:7} {outcome.value}: {reason}", markup=False, highlight=False)
        for number, played, path in self.failures:
            console.print(f"case {number} {played.outcome.value}: {played.reason}", markup=False)
            if path is not None:
                console.print(f"  replay: make fuzz FILE={path}", markup=False, soft_wrap=True)
