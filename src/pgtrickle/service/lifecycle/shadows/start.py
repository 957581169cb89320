"""``alter_stream_table(query=..., shadow_build=True)``: load a new query beside the old one.

A shadow is a successor that belongs to no process (see docs/adr/0051): the catalog says how far it
is, so that any daemon, or a later command, goes on with it.
"""

from __future__ import annotations

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.catalog.shadows.builds import insert_shadow_build, shadow_name
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import ShadowRefusedError
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import Changes
from pgtrickle.service.compile import compile_query
from pgtrickle.service.lifecycle.replacing.successors import (
    check_alone,
    check_query,
    declare_successor,
    rehearse,
)
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.runtime import Runtime

# What comes with a query that is loaded as a shadow; other options can be altered at once.
_TAKEN = ("refresh_mode", "shadow_build", "hold", "allow_breaking")


def start_shadow_build(
    runtime: Runtime,
    name: QualifiedName,
    query: str,
    changes: Changes,
    search_path: str | None = None,
) -> StreamTable:
    """Create the shadow of a stream table, empty; return the stream table."""
    others = [one for one in changes.values() if one not in _TAKEN]
    if others:
        raise ShadowRefusedError(
            f"a shadow build takes no other options with it: {', '.join(others)}",
            hint="Change them by an alteration of their own, before it or after it.",
        )
    options = changes.options
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
        given = "refresh_mode" in changes
        mode = options.refresh_mode if given else stream_table.refresh_mode
        _check_stream_table(stream_table, mode)
        check_alone(runtime, connection, stream_table)
        bounds = Bounds.of(runtime.settings)
        compiled = compile_query(connection, query, runtime.users_path(search_path), bounds)
        check_query(runtime, compiled, mode)
        if rehearse(
            runtime,
            connection,
            stream_table,
            compiled,
            mode,
            allow_breaking=options.allow_breaking,
        ):
            raise ShadowRefusedError(
                f'with this query "{name}" would read itself through others',
                hint="A circle cannot be loaded beside the old contents: leave shadow_build out.",
            )

        def record(writer: Connection, shadow: StreamTable) -> None:
            insert_shadow_build(
                writer,
                stream_table.id,
                shadow.id,
                query,
                hold=options.hold,
                allow_breaking=options.allow_breaking,
            )

        declare_successor(
            runtime,
            connection,
            stream_table,
            shadow_name(stream_table.id),
            query,
            compiled,
            mode,
            record,
        )
    return stream_table


def _check_stream_table(stream_table: StreamTable, mode: RefreshMode) -> None:
    """Raise ST226 for a stream table whose contents a refresh does not make alone."""
    if RefreshMode.IMMEDIATE in {mode, stream_table.refresh_mode}:
        raise ShadowRefusedError(
            f'writers maintain "{stream_table.name}", or are to: a shadow is followed by refreshes',
            hint="Leave shadow_build out, or choose DIFFERENTIAL until the query is replaced.",
        )
    if stream_table.circle is not None:
        raise ShadowRefusedError(
            f'"{stream_table.name}" forms a circle with other stream tables',
            hint="They are computed together: leave shadow_build out.",
        )
