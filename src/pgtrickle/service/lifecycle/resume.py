"""``resume_stream_table``: let the scheduler refresh a suspended stream table again."""

from __future__ import annotations

from pgtrickle.errors import StatusForbidsError
from pgtrickle.model.stream_table import Status, StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.options.changes import Changes
from pgtrickle.service.insight.status import show_stream_table
from pgtrickle.service.lifecycle.alter import alter_stream_table
from pgtrickle.service.refreshing.failures import tell_resumed
from pgtrickle.service.runtime import Runtime


def resume_stream_table(runtime: Runtime, name: QualifiedName) -> StreamTable:
    """Make a suspended stream table active, and notify listeners; ST211 if it is not suspended."""
    stream_table = show_stream_table(runtime, name)
    if stream_table.status not in {Status.SUSPENDED, Status.ERROR}:
        raise StatusForbidsError(
            f'the stream table "{stream_table.name}" is not suspended: it is'
            f" {stream_table.status.value}",
            hint="There is nothing to resume.",
        )
    active = Changes.read({"status": Status.ACTIVE})
    resumed = alter_stream_table(runtime, stream_table.name, active)
    with runtime.connection() as connection:
        tell_resumed(connection, stream_table.name)
    return resumed
