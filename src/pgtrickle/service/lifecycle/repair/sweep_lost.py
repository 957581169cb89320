"""Clear a name whose stream table has lost its table to DROP SCHEMA or DROP TABLE ... CASCADE.

What is left of it (state, capture, the entry in the catalog) would keep the name taken.  A copy in
the lake outlives the table; it is not deleted by the way.
"""

from __future__ import annotations

from pgtrickle.catalog.lake.sinks import find_sink
from pgtrickle.catalog.stream_tables import find_stream_table
from pgtrickle.errors import NameTakenError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.lifecycle.drop import drop_stream_table, find_table
from pgtrickle.service.runtime import Runtime


def sweep_lost(runtime: Runtime, name: QualifiedName) -> None:
    """Remove the remains of a lost stream table of this name.

    Raises ST207 if another stream table reads it, and ST202 if the lake has a copy of it.
    """
    with runtime.connection() as connection:
        found = find_stream_table(connection, name)
        if found is None or find_table(connection, found) is not None:
            return
        copied = find_sink(connection, found.id) is not None
    if copied:
        raise NameTakenError(
            f'the stream table "{name}" has lost its table, and still has a copy in the lake',
            hint=f"Remove both with: pgtrickle drop {name}.",
        )
    drop_stream_table(runtime, name, cascade=False)
