"""What the catalog tells about stream tables: lists, history, dependencies."""

from __future__ import annotations

from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pgtrickle.catalog.dependencies import list_parents
from pgtrickle.catalog.graph import groups_of, list_nodes
from pgtrickle.catalog.refresh_groups import list_refresh_groups
from pgtrickle.catalog.refresh_history import Refresh, list_refreshes
from pgtrickle.catalog.stream_tables import get_stream_table, list_stream_tables
from pgtrickle.catalog.successors import is_successor
from pgtrickle.model.diamonds import DiamondSchedulePolicy
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.scheduler.units import Shape
from pgtrickle.service.runtime import Runtime


def show_stream_tables(runtime: Runtime) -> list[StreamTable]:
    """Return every stream table, by name."""
    with runtime.connection() as connection:
        return list_stream_tables(connection)


def show_stream_table(runtime: Runtime, name: QualifiedName) -> StreamTable:
    """Return one stream table."""
    with runtime.connection() as connection:
        return get_stream_table(connection, name)


def show_history(runtime: Runtime, name: QualifiedName | None, *, limit: int) -> list[Refresh]:
    """Return the latest refreshes of one stream table, or of all, the newest first."""
    with runtime.connection() as connection:
        if name is not None:
            get_stream_table(connection, name)
        return list_refreshes(connection, name, limit=limit)


def show_dependencies(runtime: Runtime) -> dict[str, list[str]]:
    """Return, for each stream table, the stream tables it reads."""
    with runtime.connection() as connection:
        return list_parents(connection)


def show_shape(runtime: Runtime) -> Shape:
    """Return who reads whom, and which stream tables are refreshed together."""
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


_GET_TIME_ZONE = "SELECT pg_catalog.current_setting('TimeZone')"


def show_time_zone(runtime: Runtime) -> str:
    """Return the server's time zone; UTC for one that only PostgreSQL knows."""
    with runtime.connection() as connection:
        [(name,)] = connection.execute(_GET_TIME_ZONE).fetchall()
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"
