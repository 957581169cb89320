"""Translate PostgreSQL errors to pgtrickle's, by SQLSTATE and never by message."""

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
    UndefinedObjectError,
)
from pgtrickle.model.text.search_path import OWN_PATH

_BY_STATE: dict[str, type[TrickleError]] = {
    # A domain, or a constraint on a stream table, refuses a value.
    "23502": DataError,
    "23514": DataError,
    "25006": StandbyError,  # our transactions are read-only only if the server is
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


# A missing name: a relation, column, function, type or schema.
_UNDEFINED = frozenset({"42P01", "42703", "42883", "42704", "3F000"})


def error_for(
    sqlstate: str | None, message: str, *, doing: str, context: str | None = None
) -> TrickleError:
    """Build the error for a failed statement; no SQLSTATE means the connection itself failed.

    ``context`` is PostgreSQL's call stack of functions.

    >>> error_for("22012", "division by zero", doing="read").code
    'ST407'
    >>> error_for("42P01", "no table", doing="read", context="PL/pgSQL function rate()").code
    'ST105'
    """
    if sqlstate in _UNDEFINED and context:
        return _lost_in_function(sqlstate, message)
    kind: type[TrickleError] = ConnectionLostError
    if sqlstate:
        kind = _BY_STATE.get(sqlstate) or _BY_CLASS.get(sqlstate[:2]) or InternalError
    what = f"PostgreSQL could not {doing}" + (f" (SQLSTATE {sqlstate})" if sqlstate else "")
    if sqlstate == "21000":
        what = "a subquery used as a value gave more than one row (SQLSTATE 21000)"
    error = kind(what, detail=message.strip(), hint=_HINTS.get(kind, ""))
    error.sqlstate = sqlstate
    return error


def _lost_in_function(sqlstate: str, message: str) -> UndefinedObjectError:
    """Build the error of a user's function that relied on the path of its caller."""
    error = UndefinedObjectError(
        f"a function does not find something that it names (SQLSTATE {sqlstate})",
        detail=message.strip(),
        hint=f"Functions are called under search_path = {OWN_PATH}: give it its own with ALTER"
        " FUNCTION ... SET search_path = ..., or qualify the names in it.",
    )
    error.sqlstate = sqlstate
    return error
