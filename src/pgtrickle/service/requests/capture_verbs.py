"""The verbs of requests on capture: pause it, resume it, and make its triggers again.

They concern every consumer of a source and take locks on it, so only who may act as the server,
the owner of the catalog, may ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pgtrickle.catalog.capture.change_tracking import list_change_tracking
from pgtrickle.immediate.pauses import list_immediate_sources
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.capturing.pause_and_repair import (
    pause_cdc,
    rebuild_cdc_triggers,
    resume_cdc,
)
from pgtrickle.service.requests.caller import check_may_act_as_server
from pgtrickle.service.runtime import Runtime

if TYPE_CHECKING:  # which imports this module
    from pgtrickle.service.requests.verbs import Ask


def pause(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Stop capturing these sources, or all."""
    return {"paused": _for_sources(ask, given, pause_cdc)}


def resume(ask: Ask, given: Mapping[str, Any]) -> Any:
    """Capture these sources, or all, again."""
    return {"resumed": _for_sources(ask, given, resume_cdc)}


def rebuild(ask: Ask, _given: Mapping[str, Any]) -> Any:
    """Create the capture triggers of every source again."""
    check_may_act_as_server(ask)
    return {"mended": [asdict(one) for one in rebuild_cdc_triggers(ask.runtime)]}


def _for_sources(
    ask: Ask,
    given: Mapping[str, Any],
    act: Callable[[Runtime, Sequence[QualifiedName]], list[str]],
) -> list[str]:
    check_may_act_as_server(ask)
    names = given.get("names")
    # An empty list is no source; only an omitted one is all of them.
    return [] if names == [] else act(ask.runtime, _find_sources(ask, names or ()))


def _find_sources(ask: Ask, texts: Sequence[Any]) -> list[QualifiedName]:
    """Return the sources of these names, each the first on the caller's search path."""
    with ask.runtime.connection() as connection:
        known = {one.source for one in list_change_tracking(connection)}
        known |= {one.source for one in list_immediate_sources(connection)}
    found = []
    for text in texts:
        names = [QualifiedName.parse(str(text), one) for one in ask.request.schemas or ("",)]
        found.append(next((one for one in names if one in known), names[0]))
    return found
