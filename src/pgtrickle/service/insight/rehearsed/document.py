"""A rehearsal as JSON: scripts rely on its keys."""

from __future__ import annotations

from dataclasses import asdict

from pgtrickle.model.insight.rehearsal import Rehearsal

Document = dict[str, object]


def rehearsal_document(rehearsal: Rehearsal) -> Document:
    """Describe the decision, the figures of each stage, and those of the apply."""
    return asdict(rehearsal) | {"taken_at": rehearsal.taken_at.isoformat()}
