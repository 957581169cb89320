"""Run one stage of a refresh: Arrow tables in, Spark SQL over them, an Arrow table out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from pgtrickle.spark.executors.large_read import LargeRead
from pgtrickle.spark.local_views import local_frame, view_names, views_of
from pgtrickle.spark.spark_errors import translated
from pgtrickle.sql.emit import substitute

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import DataFrame, SparkSession

Input: TypeAlias = "pa.Table | LargeRead"


def run(
    session: SparkSession, inputs: Mapping[str, Input], sql: str, *, connection_file: str = ""
) -> pa.Table:
    """Run ``sql`` with the input of each ``{name}`` in it, and fetch the result.

    ``connection_file`` tells executors how to reach PostgreSQL; only a LargeRead needs it.
    """
    with translated("run a stage"):
        frames = {name: frame_of(session, value, connection_file) for name, value in inputs.items()}
        with _over_views(session, frames, sql) as query:
            return query.toArrow()


def run_small(session: SparkSession, tables: Mapping[str, pa.Table], sql: str) -> pa.Table:
    """Run ``sql`` over tables of one partition each, with as few calls of the JVM as possible."""
    with translated("run a stage"), views_of(session, tables) as views:
        return session.sql(substitute(sql, views)).toArrow()


def stage(
    session: SparkSession,
    inputs: Mapping[str, Input],
    sql: str,
    table: tuple[str, str],
    *,
    connection_file: str,
    report: tuple[str, str, str] | None = None,
) -> None:
    """Run ``sql`` and let the executors COPY the result into a staging table (see ``pg_sink``)."""
    from pgtrickle.spark.executors.pg_sink import FORMAT  # noqa: PLC0415 - imports pyspark

    options = {"table": json.dumps(table), "connection_file": connection_file}
    if report is not None:
        options["report"] = json.dumps(report)
    with translated("stage a result"), _reused(session, inputs, sql, connection_file) as frame:
        frame.write.format(FORMAT).mode("append").options(**options).save()


@contextmanager
def _reused(
    session: SparkSession, inputs: Mapping[str, Input], sql: str, connection_file: str
) -> Iterator[DataFrame]:
    """Yield the query's DataFrame; inputs that it names twice are read once and kept for the block.

    Spark keeps them in memory if there is enough, and on its local disk otherwise.
    """
    frames = {name: frame_of(session, value, connection_file) for name, value in inputs.items()}
    kept = [
        frames[name].persist()
        for name, value in inputs.items()
        if isinstance(value, LargeRead) and sql.count(f"{{{name}}}") > 1
    ]
    try:
        with _over_views(session, frames, sql) as query:
            yield query
    finally:
        for frame in kept:
            frame.unpersist()


@contextmanager
def _over_views(
    session: SparkSession, frames: Mapping[str, DataFrame], sql: str
) -> Iterator[DataFrame]:
    views = view_names(frames)
    try:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(views[name])
        yield session.sql(substitute(sql, views))
    finally:
        # Not before the block has its result: through Spark Connect a query is analysed only then.
        for view in views.values():
            session.catalog.dropTempView(view)


def frame_of(session: SparkSession, value: Input, connection_file: str) -> DataFrame:
    """Return an input as a DataFrame; executors find PostgreSQL by the connection file."""
    if not isinstance(value, LargeRead):
        return local_frame(session, value)
    from pgtrickle.spark.executors.pg_source import FORMAT  # noqa: PLC0415 - imports pyspark

    # Spark looks a Python data source up in the thread's active session, which a refresh in the
    # small profile has changed; making a DataFrame is the public way to change it back.
    session.createDataFrame([], "one int")
    reader = session.read.format(FORMAT).schema(value.schema_ddl)
    return reader.options(**value.options(), connection_file=connection_file).load()
