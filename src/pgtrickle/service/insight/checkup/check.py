"""The result of one check of ``doctor``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pgtrickle.model.status_report import Severity
from pgtrickle.model.text.shown import Shown
from pgtrickle.service.insight.index_advice import IndexAdvice


@dataclass(frozen=True, slots=True)
class Check(Shown):
    """The result of one check."""

    in_listing: ClassVar[tuple[str, ...]] = (
        "name",
        "ok",
        "detail",
        "hint",
    )

    name: str
    ok: bool
    detail: str
    hint: str = ""
    missing_indexes: tuple[IndexAdvice, ...] = ()  # advice: they are not required
    evidence: Mapping[str, Any] | None = None
    command: str | None = None  # that helps
    warning: bool = False  # not well, and yet not in the way

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        if not self.ok:
            return Severity.CRITICAL
        warns = self.warning or self.missing_indexes
        return Severity.WARNING if warns else Severity.OK
