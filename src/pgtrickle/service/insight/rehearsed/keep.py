"""Keep the figures of a rehearsal as a profile, among the last ones of its stream table."""

from __future__ import annotations

import json
from typing import Any

from pgtrickle.catalog.insight.profiles import keep_profile
from pgtrickle.model.insight.rehearsal import Rehearsal
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.insight.rehearsed.document import rehearsal_document
from pgtrickle.service.runtime import Runtime

_MOST_CHARACTERS = 2_000_000  # of a profile with its plans


def keep_figures(runtime: Runtime, name: QualifiedName, rehearsal: Rehearsal) -> None:
    """Keep the figures; without the plans of PostgreSQL where these are very long."""
    kept = runtime.settings.profiles_kept
    if not kept or not rehearsal.ran:
        return
    figures: Any = rehearsal_document(rehearsal)
    if len(json.dumps(figures)) > _MOST_CHARACTERS:
        statements = [
            *figures["apply"],
            *(one for stage in figures["stages"] for one in stage["statements"]),
        ]
        for one in statements:
            one["plan"], one["sql"] = {}, one["sql"][:200]
    with runtime.connection() as connection:
        keep_profile(connection, name, rehearsal, figures, kept)
