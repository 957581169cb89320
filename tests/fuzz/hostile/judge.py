"""Give a text to ``validate_query`` and judge what it says."""

from __future__ import annotations

import re
import resource
import time
from dataclasses import dataclass
from enum import Enum

import psycopg

from pgtrickle.errors import TrickleError
from pgtrickle.service.lifecycle.validate import Validation, validate_query
from tests.fuzz.hostile.texts import HostileText
from tests.labs.lab import Lab

SECONDS = 15.0  # of this process's own work; ``compile_timeout_ms`` is 10,000 here
_MEGABYTES = 1500  # that one text may add; what compiles for ten seconds has used one gigabyte
_VIEW = "CREATE VIEW fuzz.judged AS "
# What parsers, drivers and Python say, and none of our errors may.
_FOREIGN = re.compile(
    r"sqlglot|psycopg|Traceback|NoneType|object has no attribute|unhashable|ParseError|TokenError"
    r"|Expecting [)(A-Z]|Invalid expression / Unexpected|Required argument|Failed to parse any statement"
    r"|is not iterable|not subscriptable|recursion depth|Error tokenizing|Unexpected token|<class '"
    r"|list index out of range|pgtrickle_state\.|__bind"
)
_ANOTHER_MODE = re.compile(r"FULL|AUTO|PostgreSQL answers|engine")
_UNKNOWN = frozenset({"ST101", "ST105"})  # of a text that PostgreSQL does not understand
_TOO_LARGE = frozenset({"ST108", "ST112"})
_WHOLE = frozenset({"ST108", "ST112", "ST104", "ST107"})  # nothing in it could be underlined


class Verdict(Enum):
    """What became of a text."""

    MAINTAINED = "maintained"  # it is still a query, and would be DIFFERENTIAL
    RUN_IN_FULL = "run in full"
    REFUSED = "refused"  # in every mode
    CRASHED = "crashed"
    SLOW = "slow"
    HUNGRY = "hungry"
    UNCLEAR = "unclear"  # a foreign message, or a refusal that does not help
    MISJUDGED = "misjudged"  # PostgreSQL says otherwise

    @property
    def failure(self) -> bool:
        """Whether it is a bug."""
        return self not in {Verdict.MAINTAINED, Verdict.RUN_IN_FULL, Verdict.REFUSED}


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a text, and why."""

    verdict: Verdict
    reason: str = ""
    seconds: float = 0.0


def judge(lab: Lab, text: HostileText) -> Judged:
    """Validate a text; every answer but a clear and timely one is a failure."""
    began, held = time.thread_time(), _held()
    try:
        validation = validate_query(lab.trickle._runtime, text.sql, text.path)
    except Exception as error:  # noqa: BLE001 - whatever is raised is a finding
        return Judged(Verdict.CRASHED, f"{type(error).__name__}: {error}"[:2000])
    seconds, grown = time.thread_time() - began, _held() - held
    if seconds > SECONDS:
        return Judged(Verdict.SLOW, "more than the compile budget", seconds)
    if grown > _MEGABYTES:
        return Judged(Verdict.HUNGRY, f"holds {grown} MB more", seconds)
    for found in validation.reasons:
        if problem := _unclear(found, usable=validation.usable):
            return Judged(Verdict.UNCLEAR, f"{problem}: {_shown(found)}", seconds)
    codes = {one.code for one in validation.reasons}
    # What is too large for us may take all memory of a server that is asked without our limits.
    accepted, why = (None, "") if codes & _TOO_LARGE else _accepts(lab, text)
    if problem := _misjudged(validation, accepted=accepted):
        said = "; ".join(map(_shown, validation.reasons))
        return Judged(Verdict.MISJUDGED, f"{problem}: {said} {why}", seconds)
    reason = ", ".join(sorted({f"{one.code} {_kind(str(one))}" for one in validation.reasons}))
    if validation.differential:
        return Judged(Verdict.MAINTAINED, "", seconds)
    verdict = Verdict.RUN_IN_FULL if validation.usable else Verdict.REFUSED
    return Judged(verdict, reason, seconds)


def _unclear(reason: TrickleError, *, usable: bool) -> str:
    """Return what is wrong with an error as an answer to a text; empty if nothing."""
    whole = f"{reason} {reason.detail} {reason.hint}"
    if found := _FOREIGN.search(re.sub(r'(?ms)^line \d+: .*?$|"[^"]*"', "", whole)):
        return f"says {found.group()}"
    if not reason.code.startswith(("ST1", "ST208", "ST3")):
        return "another code"
    if not reason.hint:
        return "no hint"
    if "cannot be written down again" in str(reason):
        return "the product's own text fails"
    if not usable:
        return ""
    if not _ANOTHER_MODE.search(reason.hint):
        return "no mode that works"
    if "^" not in reason.detail and reason.code not in _WHOLE:
        return "nothing underlined"
    return ""


def _accepts(lab: Lab, text: HostileText) -> tuple[bool | None, str]:
    """Return whether PostgreSQL makes a view of the text; None if it does not say."""
    lab.connection.execute("BEGIN")
    try:
        lab.connection.execute("SELECT set_config('search_path', %s, true)", [text.path])
        lab.connection.execute("SET LOCAL statement_timeout = '10s'")
        lab.connection.execute((_VIEW + text.sql.rstrip("; \t\r\n\f\v")).encode(), binary=True)
    except (UnicodeEncodeError, psycopg.errors.QueryCanceled):
        return None, ""
    except psycopg.Error as error:
        return False, str(error)
    else:
        return True, ""
    finally:
        lab.connection.execute("ROLLBACK")


def _misjudged(validation: Validation, *, accepted: bool | None) -> str:
    codes = {one.code for one in validation.reasons}
    if accepted and codes & _UNKNOWN:
        return "PostgreSQL understands it"
    if accepted is False and validation.usable:
        return "PostgreSQL does not accept it"
    return ""


def _shown(error: TrickleError) -> str:
    return f"{error.code} {error} | {error.detail} | {error.hint}"[:1500]


def _kind(message: str) -> str:
    """Cut the parts of a message that differ from text to text."""
    return re.sub(r"\d+", "n", re.sub(r'"[^"]*"', '"x"', message.partition("\n")[0]))[:60]


def _held() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
