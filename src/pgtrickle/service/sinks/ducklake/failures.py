"""The reaction to a failed delivery, by the kind of its error and never by its text.

Storage and networks come back without anyone's help, so what fails because of them is tried again
for as long as it takes, after pauses that grow up to a limit.  Only what cannot heal by itself, a
lake table that others have taken for one, waits for someone in the end.
"""

from __future__ import annotations

import logging
import random
from datetime import UTC, datetime, timedelta

from psycopg import Connection

from pgtrickle.catalog.lake.sinks import OpenDelivery, fail_delivery
from pgtrickle.errors import LakeSinkError, PrivilegeError, Retry, TrickleError
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.settings import Settings

logger = logging.getLogger(__name__)

_ALERTS = "pg_trickle_alert"


def heals(error: TrickleError) -> bool:
    """Tell whether the cause of a failure may disappear without a change here.

    A right that is granted later is noticed by the next attempt.
    """
    return error.retry is not Retry.NEVER or isinstance(error, PrivilegeError)


def pause_seconds(settings: Settings, failures: int) -> float:
    """Return how long to wait after so many failures in a row.

    Between half and all of it, so that many sinks do not come back at the same moment.
    """
    first = settings.ducklake_sink_retry_seconds
    longest = max(settings.ducklake_sink_longest_retry_seconds, first)
    grown = first * 2.0 ** min(failures - 1, 60)
    return min(grown, longest) * random.uniform(0.5, 1)  # noqa: S311 - nothing is to be kept secret


_ALERT = """
    SELECT pgtrickle.notify(%s, pg_catalog.json_build_object(
               'event', 'ducklake_sink_failed', 'stream_table', %s::pg_catalog.text,
               'attempts', %s::pg_catalog.int4, 'error', %s::pg_catalog.text)::pg_catalog.text)
"""


def note_failed_delivery(
    settings: Settings,
    writer: Connection,
    stream_table: StreamTable,
    delivery: OpenDelivery,
    refresh_id: int | None,
    error: TrickleError,
) -> None:
    """Record a delivery that failed, and when it is tried again, if it is."""
    lasting = not heals(error)
    exhausted = delivery.lasting >= settings.ducklake_sink_max_retries
    permanent = lasting and (exhausted or isinstance(error, LakeSinkError))
    failures = delivery.attempts + 1
    pause = pause_seconds(settings, failures)
    fail_delivery(
        writer,
        delivery.id,
        refresh_id=refresh_id,
        permanent=permanent,
        lasting=lasting,
        error=f"{error.code}: {error}",
        hint=error.hint,
        wait_seconds=pause,
    )
    again = None if permanent else datetime.now(UTC) + timedelta(seconds=pause)
    logger.warning(
        "could not deliver to the lake",
        extra={
            "stream_table": str(stream_table.name),
            "code": error.code,
            "error": str(error),
            "hint": error.hint,
            "attempts": failures,
            "next_attempt_at": None if again is None else again.isoformat(timespec="seconds"),
        },
    )
    if permanent:
        writer.execute(_ALERT, [_ALERTS, str(stream_table.name), failures, str(error)])
