"""Which of our errors a PostgreSQL failure is, by its SQLSTATE and never by its message."""

from __future__ import annotations

from pgtrickle.errors import (
    ConnectionLostError,
    DataError,
    InternalError,
    PrivilegeError,
    ServerBusyError,
    StandbyError,
    StorageFullError,
    TrickleError,
)

_BY_STATE: dict[str, type[TrickleError]] = {
    "25006": StandbyError,  # no transaction of ours is read-only unless the server is
    "42501": PrivilegeError,
    "55P03": ServerBusyError,
    "57014": ServerBusyError,
}
_BY_CLASS: dict[str, type[TrickleError]] = {
    "08": ConnectionLostError,
    "21": DataError,
    "22": DataError,
    "40": ServerBusyError,
    "53": StorageFullError,
    "57": ConnectionLostError,
    "58": StorageFullError,
}
_HINTS: dict[type[TrickleError], str] = {
    ConnectionLostError: "Check that the server runs and that the DSN is right.",
    PrivilegeError: "GRANT the missing privilege to the role that pgtrickle connects as.",
    StandbyError: "Connect to the primary; add target_session_attrs=read-write to the DSN.",
    StorageFullError: "Free disk space, memory or connections of the PostgreSQL server.",
    ServerBusyError: "Try again when the conflicting work is over.",
    DataError: "Correct the data or guard the expression in the defining query.",
}


def error_for(sqlstate: str | None, message: str, *, doing: str) -> TrickleError:
    """Build the error for a failed statement; no SQLSTATE means the connection itself failed.

    >>> error_for("22012", "division by zero", doing="read").code
    'ST407'
    """
    kind: type[TrickleError] = ConnectionLostError
    if sqlstate:
        kind = _BY_STATE.get(sqlstate) or _BY_CLASS.get(sqlstate[:2]) or InternalError
    what = f"PostgreSQL could not {doing}" + (f" (SQLSTATE {sqlstate})" if sqlstate else "")
    if sqlstate == "21000":
        what = "a subquery used as a value gave more than one row (SQLSTATE 21000)"
    error = kind(what, detail=message.strip(), hint=_HINTS.get(kind, ""))
    error.sqlstate = sqlstate
    return error
