"""``export_definition``: the statements that create a stream table in any database."""

from __future__ import annotations

from pgtrickle.catalog.definitions import export_definition as export
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.rename import follow_renames
from pgtrickle.service.runtime import Runtime


def export_definition(runtime: Runtime, name: QualifiedName) -> str:
    """Return SQL that creates a stream table, or changes an existing one of this name to match."""
    with runtime.connection() as connection:
        stream_table = get_stream_table(connection, name)
        if not connection.only_looks:  # follow recent renames in the text, too
            follow_renames(runtime, [stream_table.id])
        return export(connection, stream_table.name)
