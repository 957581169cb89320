"""Write a rehearsal in one of the forms of ``explain``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from pgtrickle.model.insight.rehearsal import Rehearsal
from pgtrickle.service.insight.rehearsed.document import rehearsal_document
from pgtrickle.service.insight.rehearsed.graph import rehearsal_dot, rehearsal_mermaid
from pgtrickle.service.insight.rehearsed.html import rehearsal_html
from pgtrickle.service.insight.rehearsed.text import rehearsal_text


def _text(rehearsal: Rehearsal) -> str:
    return "\n".join(rehearsal_text(rehearsal))


def _json(rehearsal: Rehearsal) -> str:
    return json.dumps(rehearsal_document(rehearsal), indent=2, ensure_ascii=False)


_FORMS: Final[Mapping[str, Callable[[Rehearsal], str]]] = {
    "text": _text,
    "json": _json,
    "dot": rehearsal_dot,
    "mermaid": rehearsal_mermaid,
    "html": rehearsal_html,
}


def show_rehearsal(rehearsal: Rehearsal, form: str) -> str:
    """Return a rehearsal as a text."""
    return _FORMS[form](rehearsal)
