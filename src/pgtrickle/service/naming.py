"""What all verbs have in common: a database, and the names of its tables as users write them."""

from __future__ import annotations

from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.extras import with_named_extras
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.runtime import Runtime


class Naming:
    """A base of the client, and of its attributes that hold the verbs on one subject."""

    def __init_subclass__(cls, **facts: object) -> None:
        """Let each verb name the extra of the package that it lacks."""
        super().__init_subclass__(**facts)
        with_named_extras(cls)

    def __init__(self, runtime: Runtime, schema: str) -> None:
        self._runtime = runtime
        self._schema = schema  # of names that are given without one

    def _name(self, text: str) -> QualifiedName:
        return QualifiedName.parse(text, self._schema)

    def _get(self, name: str) -> StreamTable:
        with self._runtime.connection() as connection:
            return get_stream_table(connection, self._name(name))
