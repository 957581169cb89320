"""The consequences of a failed refresh, by the kind of its error and never by its text."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

from psycopg import Connection

from pgtrickle.binding.rights import explain_denial
from pgtrickle.catalog.dependencies import list_dependencies
from pgtrickle.catalog.refreshes.history import RefreshRecord, RefreshStatus, insert_refresh
from pgtrickle.catalog.stream_tables import find_stream_table_by_id, update_error
from pgtrickle.errors import (
    CapturePausedError,
    ContentsDivergedError,
    FuseBlownError,
    InternalError,
    NotOwnerError,
    PrivilegeError,
    RefreshCancelledError,
    Retry,
    StandbyError,
    StatusForbidsError,
    StreamTableNotFoundError,
    TableNotSafeError,
    TrickleError,
    VolatileFunctionError,
)
from pgtrickle.model.stream_table import InitiatedBy, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lock_waits import explained
from pgtrickle.service.observing.observer import Ended, tell
from pgtrickle.service.refreshing.refresh import Refresh
from pgtrickle.service.running_refreshes import cancelled
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

# Someone else has to act; after that, the stream table continues by itself.
_FORGIVEN = (
    PrivilegeError,
    NotOwnerError,
    StatusForbidsError,
    CapturePausedError,
    FuseBlownError,
    TableNotSafeError,
)


@contextmanager
def recorded(refresh: Refresh) -> Iterator[None]:
    """Record a failure in the history and on the stream table."""
    runtime, stream_table = refresh.runtime, refresh.stream_table
    try:
        yield
    except TrickleError as error:
        loss = ""
        # The caller is gone and the connections were closed: not a failure of the stream tables.
        called_off = runtime.cancelled and not isinstance(error, RefreshCancelledError)
        told = cancelled(str(stream_table.name)) if called_off else error
        # Nothing can be recorded without a server; the original error matters more.
        with suppress(TrickleError), runtime.connection() as connection:
            found = find_stream_table_by_id(connection, stream_table.id)
            loss = _find_loss(connection, found)
            stream_table = found or stream_table  # it may have been renamed meanwhile
            told = _explain(connection, stream_table, _name_writer(refresh, told))
            _record_failure(connection, refresh, stream_table, told)
        _tell_failed(refresh, told)
        if loss:
            raise StreamTableNotFoundError(
                f'the stream table "{stream_table.name}" {loss}',
                hint="List what exists with: pgtrickle list; a lost table is cleared away with:"
                f" pgtrickle drop {stream_table.name}.",
            ) from error
        if told is not error:
            raise told from error
        raise


def _tell_failed(refresh: Refresh, error: TrickleError) -> None:
    if (trace := refresh.account.trace) is not None:
        error.trace_id = trace.id
        tell(refresh.runtime, Ended(refresh, trace, time.time_ns(), error=error))


def _find_loss(connection: Connection, found: StreamTable | None) -> str:
    """Describe the loss of a stream table or its relation during the refresh; empty if none."""
    if found is None:
        return "was dropped during its refresh"
    there = connection.execute(
        "SELECT FROM pg_catalog.pg_class WHERE oid = %s", [found.relid]
    ).fetchone()
    return "has lost its table to a DROP TABLE" if there is None else ""


def _explain(
    connection: Connection, stream_table: StreamTable, error: TrickleError
) -> TrickleError:
    """Return an error with the blocking locks, or the missing privilege."""
    sources = list_dependencies(connection, stream_table.id)
    error = explain_denial(
        connection, error, {one.source_relid: one.columns_used for one in sources}
    )
    return explained(connection, error, [one.source_relid for one in sources], [stream_table.relid])


def _name_writer(refresh: Refresh, error: TrickleError) -> TrickleError:
    """Return the error of a volatile function that writes: the reads of a refresh are read-only."""
    compiled = refresh.runtime.remembered.find_compiled(refresh.stream_table)
    if not isinstance(error, StandbyError) or compiled is None or not compiled.binding.volatile:
        return error
    return VolatileFunctionError(
        "a function of the query writes to the database, and a refresh only reads",
        detail=error.detail,
        hint="Call such functions in the statements that write the sources.",
    )


def _record_failure(
    connection: Connection, refresh: Refresh, stream_table: StreamTable, error: TrickleError
) -> None:
    account, decision = refresh.account, refresh.account.decision
    called_off = isinstance(error, RefreshCancelledError)
    record = RefreshRecord(
        initiated_by=refresh.initiated_by,
        status=RefreshStatus.CANCELLED if called_off else RefreshStatus.FAILED,
        action=decision.action if decision else None,
        reason=decision.reason if decision else "",
        reads=account.reads,
        timings_ms=account.timings,
        costs=replace(account.record_costs(stream_table, decision), counted=None),
        error=error,
        trace_id=account.trace_id,
    )
    with connection.transaction():
        insert_refresh(connection, stream_table.id, record)
        note_failure(refresh.runtime, connection, stream_table, error, refresh.initiated_by)


def counts(error: TrickleError) -> bool:
    """Return whether an error counts towards the suspension of a stream table.

    One that may pass by itself does not, however often it occurs.
    """
    return error.retry is not Retry.BACKOFF and not isinstance(error, _FORGIVEN)


def starts_anew(error: TrickleError) -> bool:
    """Return whether the next refresh must rebuild the contents, since it cannot continue.

    A source that changed shape is noticed anyway, and may change back.
    """
    # Class 42 during a refresh: its state is missing, or of another kind.
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
    """Count an error on its stream table; too many in a row suspend it.

    Only errors of the scheduler's refreshes count: a user who refreshes by hand sees the error. A
    cancelled refresh is not an error of the stream table.
    """
    if isinstance(error, RefreshCancelledError):
        return
    scheduled = initiated_by is InitiatedBy.SCHEDULER
    suspended = update_error(
        connection,
        stream_table.id,
        f"{error.code}: {error}",
        code=error.code,
        counted=counts(error),
        suspend_after=runtime.settings.max_consecutive_errors if scheduled else 0,
        lasting=timedelta(seconds=runtime.settings.suspend_after_seconds),
        starts_anew=starts_anew(error),
    )
    if suspended is not None:
        error.suspended = str(stream_table.name)
        logger.warning(
            "suspended",
            extra={
                "stream_table": str(stream_table.name),
                "code": error.code,
                "consecutive_errors": suspended,
            },
        )
        values = {"name": str(stream_table.name), "code": error.code, "errors": suspended}
        connection.execute(_ALERT, values)


_TELL_RESUMED = """
    SELECT pgtrickle.notify('pg_trickle_alert', pg_catalog.json_build_object(
        'event', 'resumed', 'name', %s::pg_catalog.text)::pg_catalog.text)
"""


def tell_resumed(connection: Connection, name: QualifiedName) -> None:
    """Notify listeners that a stream table is refreshed again."""
    connection.execute(_TELL_RESUMED, [str(name)])
    logger.info("resumed", extra={"stream_table": str(name)})
