"""What a failed refresh leads to, by the kind of its error and never by its text."""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.catalog.stream_tables import update_error
from pgtrickle.errors import (
    CapturePausedError,
    ContentsDivergedError,
    FuseBlownError,
    InternalError,
    NotOwnerError,
    PrivilegeError,
    Retry,
    StatusForbidsError,
    TableNotSafeError,
    TrickleError,
)
from pgtrickle.model.stream_table import InitiatedBy, StreamTable
from pgtrickle.service.runtime import Runtime

# Someone else has to act, and the stream table goes on by itself when they have.
_FORGIVEN = (
    PrivilegeError,
    NotOwnerError,
    StatusForbidsError,
    CapturePausedError,
    FuseBlownError,
    TableNotSafeError,
)


def counts(error: TrickleError) -> bool:
    """Tell whether an error is one of those that suspend a stream table in the end.

    What may heal by itself does not, however often it comes.
    """
    return error.retry is not Retry.BACKOFF and not isinstance(error, _FORGIVEN)


def starts_anew(error: TrickleError) -> bool:
    """Tell whether the next refresh must rebuild the contents, since it cannot go on from them.

    A source that changed shape is noticed by itself, and may change back.
    """
    # Class 42 in the midst of a refresh: what it keeps is not there, or not of that kind.
    undefined = isinstance(error, InternalError) and (error.sqlstate or "").startswith("42")
    return undefined or isinstance(error, ContentsDivergedError)


_ALERT = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
               'event', 'auto_suspended', 'name', %(name)s::pg_catalog.text,
               'error_code', %(code)s::pg_catalog.text,
               'consecutive_errors', %(errors)s::pg_catalog.int4)::pg_catalog.text)
"""


def note_failure(
    runtime: Runtime,
    connection: Connection,
    stream_table: StreamTable,
    error: TrickleError,
    initiated_by: InitiatedBy,
) -> None:
    """Count an error on its stream table; the last of too many in a row suspends it.

    Only those that the scheduler meets do: whoever refreshes by hand sees what happens.
    """
    scheduled = initiated_by is InitiatedBy.SCHEDULER
    suspended = update_error(
        connection,
        stream_table.id,
        f"{error.code}: {error}",
        counted=counts(error),
        suspend_after=runtime.settings.max_consecutive_errors if scheduled else 0,
        starts_anew=starts_anew(error),
    )
    if suspended is not None:
        values = {"name": str(stream_table.name), "code": error.code, "errors": suspended}
        connection.execute(_ALERT, values)
