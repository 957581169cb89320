"""Arrow tables as views of a session, in the fastest way.

``createDataFrame`` and ``createOrReplaceTempView`` make about fifty calls to the JVM for each table
and run a command for each view, 15 ms together, and a refresh of a join has a dozen of them.  A
classic session can be handed the Arrow stream and the plan of a view in a handful of calls.  Those
calls are not part of Spark's public interface: Spark Connect does not have them, and another
version may have moved them, so after any failure the public way is used.
"""
# ruff: noqa: SLF001 - PySpark hides what is used here

from __future__ import annotations

import logging
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


@contextmanager
def views_of(session: SparkSession, tables: Mapping[str, pa.Table]) -> Iterator[dict[str, str]]:
    """Show tables as views of one partition each; yields the views' names."""
    names = view_names(tables)
    door = _door_of(session)
    try:
        for name, table in tables.items():
            if door is None or not door.show(names[name], table):
                local_frame(session, table).coalesce(1).createOrReplaceTempView(names[name])
        yield names
    finally:
        # An analysed query keeps the contents of the views.
        for view in names.values():
            session.catalog.dropTempView(view) if door is None else door.hide(view)


def view_names(inputs: Iterable[str]) -> dict[str, str]:
    """Name a view for each input; unique, so that threads of one session do not conflict."""
    token = uuid.uuid4().hex
    return {name: f"pgtrickle_{token}_{number}" for number, name in enumerate(inputs)}


def local_frame(session: SparkSession, table: pa.Table) -> DataFrame:
    """Make a DataFrame of a table."""
    # PySpark silently stops reading a table at its first empty chunk.
    return session.createDataFrame(table.combine_chunks())


class _Door:
    """The way into the JVM of a classic session."""

    def __init__(self, session: Any) -> None:
        packages = session._jvm.org.apache.spark.sql
        self._session = session._jsparkSession
        self._catalog = self._session.sessionState().catalog()
        self._frames = packages.api.python.PythonSQLUtils
        self._view = packages.catalyst.catalog.TemporaryViewRelation
        self._repartition = packages.catalyst.plans.logical.Repartition
        self._some = session._jvm.scala.Some
        self._known: dict[str, Any] = {}  # the description of a view, by its schema
        self._open = True

    def show(self, name: str, table: pa.Table) -> bool:
        """Show a table as a view; False if that must be done in the public way."""
        if not self._open or not table.num_columns:
            return False
        try:
            self._show(name, table)
        except Exception:  # the public way then works or reports the error
            self._open = False
            logger.warning("small inputs go to Spark in the public, slower way", exc_info=True)
            return False
        return True

    def _show(self, name: str, table: pa.Table) -> None:
        schema, described = _schema_of(table.schema)
        if table.schema != schema:
            table = table.cast(schema)
        with tempfile.NamedTemporaryFile() as file:
            with pa.ipc.new_stream(file, schema) as stream:
                stream.write_table(table.combine_chunks())  # see ``local_frame``
            file.flush()
            batches = self._frames.readArrowStreamFromFile(file.name)
        frame = self._frames.toDataFrame(batches, described, self._session)
        if described not in self._known:
            frame.coalesce(1).createOrReplaceTempView(name)
            self._known[described] = self._catalog.getRawTempView(name).get().tableMeta()
            return
        plan = self._repartition(1, False, frame.logicalPlan())  # noqa: FBT003 - Scala
        view = self._view(self._known[described], self._some(plan))
        self._catalog.createTempView(name, view, True)  # noqa: FBT003 - Scala

    def hide(self, name: str) -> None:
        """Drop a view, if it exists."""
        self._catalog.dropTempView(name)


_doors: weakref.WeakKeyDictionary[Any, _Door | None] = weakref.WeakKeyDictionary()


def _door_of(session: Any) -> _Door | None:
    """Return the door of a session; None for one that has no JVM."""
    if session not in _doors:
        _doors[session] = _Door(session) if hasattr(session, "_jsparkSession") else None
    return _doors[session]


@lru_cache(maxsize=1024)
def _schema_of(schema: pa.Schema) -> tuple[pa.Schema, str]:
    """Return the Arrow schema that Spark accepts for a table, and Spark's description of it."""
    from pyspark.sql.pandas import types

    struct = types.from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return types.to_arrow_schema(struct, timezone="UTC"), struct.json()
