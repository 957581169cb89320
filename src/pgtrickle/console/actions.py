"""What can be done from a console: a question first, then an answer, or the reason why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pgtrickle.client.commands import cancel_request
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import TrickleError
from pgtrickle.model.stream_table import Status
from pgtrickle.model.text.passwords import hide_passwords


class Target(Enum):
    """What an action is about."""

    TABLE = "stream table"
    SOURCE = "source"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do about one stream table, source or request."""

    name: str
    key: str
    target: Target
    about: str
    question: str  # {} is what it is about
    do: Callable[[Trickle, str], str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of an action."""

    done: bool
    text: str


def perform(action: Action, trickle: Trickle, name: str) -> Answer:
    """Do it; a refusal is an answer, with its code and what to do about it."""
    try:
        return Answer(done=True, text=action.do(trickle, name))
    except TrickleError as error:
        return Answer(done=False, text=tell(error))


def tell(error: TrickleError) -> str:
    """Return an error as people read it: its code, its facts, and what to do."""
    parts = (f"error {error.code}: {error}", error.detail, error.hint and f"hint: {error.hint}")
    return hide_passwords("\n".join(filter(None, parts)))


def _refresh(trickle: Trickle, name: str, *, full: bool = False) -> str:
    report = trickle.refresh_stream_table(name, full=full)
    rows = f"+{report.rows_inserted:,} -{report.rows_deleted:,}"
    return f"{name}: {report.action.value} {rows} in {report.duration_ms:,.0f} ms: {report.reason}"


def _refresh_in_full(trickle: Trickle, name: str) -> str:
    return _refresh(trickle, name, full=True)


def _pause(trickle: Trickle, name: str) -> str:
    trickle.scheduler.pause_scheduler(name)
    return f"{name} is held back"


def _resume(trickle: Trickle, name: str) -> str:
    if trickle.get_stream_table(name).status is Status.SUSPENDED:
        trickle.resume_stream_table(name)
    trickle.scheduler.resume_scheduler(name)
    return f"{name} is refreshed again"


def _gate(trickle: Trickle, name: str) -> str:
    trickle.scheduler.gate_source(name)
    return f"the consumers of {name} are held back"


def _ungate(trickle: Trickle, name: str) -> str:
    trickle.scheduler.ungate_source(name)
    return f"the consumers of {name} are released"


def _verify(trickle: Trickle, name: str) -> str:
    report = trickle.verify_stream_table(name)
    if report.ok:
        return f"{name} equals its query: {report.rows:,} rows"
    return f"{name} DIFFERS from its query: {report.missing:,} missing, {report.extra:,} extra"


def _cancel(trickle: Trickle, name: str) -> str:
    if trickle.cancel_refresh(name):
        return f"the refresh of {name} is cancelled"
    return f"this console runs no refresh of {name}; requests are cancelled in their panel"


def _cancel_request(trickle: Trickle, number: str) -> str:
    if cancel_request(trickle, int(number)):
        return f"request {number} is cancelled"
    return f"request {number} has ended, was cancelled before, or is not yours"


_TABLE, _SOURCE = Target.TABLE, Target.SOURCE
ACTIONS = (
    Action("refresh", "r", _TABLE, "refresh it now", "Refresh {} now?", _refresh),
    Action("full", "F", _TABLE, "compute it anew", "Compute {} anew, in full?", _refresh_in_full),
    Action("pause", "p", _TABLE, "hold it back", "Hold {} back from the scheduler?", _pause),
    Action("resume", "u", _TABLE, "release or resume it", "Let {} be refreshed again?", _resume),
    Action(
        "verify", "v", _TABLE, "compare it with its query", "Compare {} with its query?", _verify
    ),
    Action("cancel", "c", _TABLE, "cancel its refresh", "Cancel the refresh of {}?", _cancel),
    Action("cancel", "c", Target.REQUEST, "cancel it", "Cancel request {}?", _cancel_request),
    Action("gate", "g", _SOURCE, "hold back its consumers", "Hold back what reads {}?", _gate),
    Action("ungate", "G", _SOURCE, "release its consumers", "Release what reads {}?", _ungate),
)
