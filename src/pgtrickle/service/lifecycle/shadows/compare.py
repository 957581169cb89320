"""``compare_shadow``: what readers would see change if a shadow took its table's place now."""

from __future__ import annotations

from contextlib import ExitStack

from pgtrickle.catalog.graph import list_companions
from pgtrickle.catalog.shadows.builds import update_rows_loaded
from pgtrickle.catalog.shadows.differences import compare_columns, compare_rows, count_rows
from pgtrickle.catalog.stream_tables import get_stream_table, get_stream_table_by_id
from pgtrickle.errors import SettingError, ShadowRefusedError, TrickleError
from pgtrickle.model.shadows.build import ShadowState
from pgtrickle.model.shadows.difference import ShadowDiff
from pgtrickle.model.stream_table import InitiatedBy, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.shadows.promote import get_active_build
from pgtrickle.service.ownership import check_owner
from pgtrickle.service.refreshing.groups.together import refresh_together
from pgtrickle.service.runtime import Runtime


def compare_shadow(runtime: Runtime, name: QualifiedName, max_rows: int = 100) -> ShadowDiff:
    """Compare a stream table with its shadow, and list up to ``max_rows`` different rows.

    Both are refreshed first, to one moment, so that they differ by their queries only.
    """
    if max_rows < 0:
        raise SettingError(
            f"max_rows is {max_rows}, which is negative", hint="Give a number from 0 on."
        )
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        check_owner(connection, stream_table)
        build, shadow = get_active_build(connection, stream_table)
    if build.state is ShadowState.LOADING:
        raise ShadowRefusedError(
            f'the shadow of "{stream_table.name}" is being loaded for the first time',
            hint=f"Look how far it is with: pgtrickle shadow status {stream_table.name}.",
        )
    note = _bring_together(runtime, stream_table, shadow)
    found = _compare(runtime, stream_table.id, shadow.id, note, max_rows)
    with runtime.connection() as connection:
        update_rows_loaded(connection, shadow.id, found.shadow_rows)
    return found


def _bring_together(runtime: Runtime, stream_table: StreamTable, shadow: StreamTable) -> str | None:
    """Refresh both to one moment; return why that is impossible, if it is."""
    with runtime.connection() as connection:
        names = [
            *list_companions(connection, stream_table.name),
            *list_companions(connection, shadow.name),
        ]
    try:
        refresh_together(runtime, list(dict.fromkeys(names)), initiated_by=InitiatedBy.MANUAL)
    except TrickleError as error:
        # A query that fails is a reason to replace it: then the rows are those that there are.
        return f"{error.code}: {error}"
    return None


def _compare(
    runtime: Runtime, stream_table_id: int, shadow_id: int, note: str | None, max_rows: int
) -> ShadowDiff:
    with ExitStack() as stack:
        connection = stack.enter_context(runtime.connection())
        stack.enter_context(connection.transaction())
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        table = get_stream_table_by_id(connection, stream_table_id)
        shadow = get_stream_table_by_id(connection, shadow_id)
        columns = compare_columns(connection, table.relid, shadow.relid)
        changes, added, removed = compare_rows(
            connection, table.relid, shadow.relid, columns.common, max_rows
        )
        return ShadowDiff(
            str(table.name),
            table.frontier is not None and table.frontier == shadow.frontier,
            table.data_timestamp,
            shadow.data_timestamp,
            note,
            columns.added,
            columns.dropped,
            columns.retyped,
            columns.common,
            count_rows(connection, table.name.sql),
            count_rows(connection, shadow.name.sql),
            added,
            removed,
            changes,
        )
