"""Read stream tables from the catalog: lists, history, dependencies."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pgtrickle.catalog.dependencies import list_parents
from pgtrickle.catalog.graph import groups_of, list_nodes
from pgtrickle.catalog.refreshes.history import Refresh, list_refreshes
from pgtrickle.catalog.renamed_tables import follow_renamed_tables
from pgtrickle.catalog.scheduling.refresh_groups import list_refresh_groups
from pgtrickle.catalog.stream_tables import (
    find_stream_table,
    get_stream_table,
    list_stream_tables,
)
from pgtrickle.catalog.successors import is_successor
from pgtrickle.errors import SettingError
from pgtrickle.model.scheduling.diamonds import DiamondSchedulePolicy
from pgtrickle.model.status_report import DiamondGroup
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.scheduler.units import Shape
from pgtrickle.service.runtime import Runtime
from pgtrickle.settings import SESSION_SETTINGS


def show_stream_tables(runtime: Runtime) -> list[StreamTable]:
    """Return every stream table, by name."""
    with runtime.connection() as connection:
        follow_renamed_tables(connection)
        return list_stream_tables(connection)


def show_stream_table(runtime: Runtime, name: QualifiedName) -> StreamTable:
    """Return one stream table."""
    with runtime.connection() as connection:
        return get_stream_table(connection, name)


def find_shown(runtime: Runtime, name: QualifiedName) -> StreamTable | None:
    """Return one stream table, None if it does not exist."""
    with runtime.connection() as connection:
        return find_stream_table(connection, name)


def show_history(runtime: Runtime, name: QualifiedName | None, *, limit: int) -> list[Refresh]:
    """Return the latest refreshes of one stream table, or of all, the newest first."""
    with runtime.connection() as connection:
        if name is not None:
            get_stream_table(connection, name)
        return list_refreshes(connection, name, limit=limit)


def show_dependencies(runtime: Runtime) -> dict[str, list[str]]:
    """Return, for each stream table, the stream tables that it reads."""
    with runtime.connection() as connection:
        return list_parents(connection)


def show_shape(runtime: Runtime) -> Shape:
    """Return the dependencies, and the stream tables that are refreshed together."""
    with runtime.connection() as connection:
        listed = (one for one in list_nodes(connection) if not is_successor(one.name))
        nodes = {one.relid: one for one in listed}
        wanted = list_refresh_groups(connection)
    names = {relid: str(one.name) for relid, one in nodes.items()}
    slowest = DiamondSchedulePolicy.SLOWEST
    return Shape(
        {
            names[relid]: [names[read] for read in one.reads if read in names]
            for relid, one in nodes.items()
        },
        tuple(tuple(names[one] for one in group) for group in groups_of(nodes.values(), wanted)),
        frozenset(str(n.name) for n in nodes.values() if n.diamond_schedule_policy is slowest),
    )


def show_diamond_groups(runtime: Runtime) -> list[DiamondGroup]:
    """Return the stream tables that are refreshed together, and their schedule policies."""
    shape = show_shape(runtime)
    return [
        DiamondGroup(group, "slowest" if shape.slowest.intersection(group) else "fastest")
        for group in shape.groups
    ]


_GET_TIME_ZONE = "SELECT pg_catalog.current_setting('TimeZone')"


def show_time_zone(runtime: Runtime) -> str:
    """Return the server's time zone; UTC if Python does not know it."""
    with runtime.connection() as connection:
        [(name,)] = connection.execute(_GET_TIME_ZONE).fetchall()
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


_GET_REQUEST_TIMEOUT = """
    SELECT nullif(pg_catalog.current_setting('pg_trickle.request_timeout', true), '')
"""


def show_request_timeout(runtime: Runtime) -> float:
    """Return how many seconds a CALL waits in a session of this role; 0: without limit."""
    with runtime.connection() as connection:
        [(text,)] = connection.execute(_GET_REQUEST_TIMEOUT).fetchall()
    try:
        return max(float(text or SESSION_SETTINGS["request_timeout"][0]), 0)
    except ValueError:
        raise SettingError(
            f'the setting "request_timeout" cannot be "{text}"',
            hint="Set it to a number of seconds, or to 0 for no limit.",
        ) from None
