"""Running one stage of a refresh: Arrow tables in, Spark SQL over them, an Arrow table out."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from pgtrickle.spark.large_read import LargeRead
from pgtrickle.spark.spark_errors import translated

if TYPE_CHECKING:  # importing pyspark costs a second
    from pyspark.sql import DataFrame, SparkSession

Input = pa.Table | LargeRead


def run(
    session: SparkSession, inputs: Mapping[str, Input], sql: str, *, connection_file: str = ""
) -> pa.Table:
    """Run ``sql``, in which ``{name}`` stands for the input of that name, and fetch the result.

    ``connection_file`` tells executors how to reach PostgreSQL; only a LargeRead needs it.
    """
    with translated("run a stage"):
        return _query(session, inputs, sql, connection_file).toArrow()


def stage(
    session: SparkSession,
    inputs: Mapping[str, Input],
    sql: str,
    table: tuple[str, str],
    *,
    connection_file: str,
) -> None:
    """Run ``sql`` and let the executors COPY the result into a staging table (see ``pg_sink``)."""
    import json

    from pgtrickle.spark.pg_sink import FORMAT, StagingSink

    with translated("stage a result"):
        session.dataSource.register(StagingSink)
        writer = _query(session, inputs, sql, connection_file).write.format(FORMAT).mode("append")
        writer.options(table=json.dumps(table), connection_file=connection_file).save()


def substitute(sql: str, views: Mapping[str, str]) -> str:
    """Put the views' names in place of ``{input}``; other braces stay.

    >>> substitute("SELECT '{x}', a FROM {o}", {"o": "v1"})
    "SELECT '{x}', a FROM v1"
    """
    if not views:
        return sql
    names = "|".join(re.escape(name) for name in views)
    return re.sub(rf"\{{({names})\}}", lambda match: views[match.group(1)], sql)


def _query(
    session: SparkSession, inputs: Mapping[str, Input], sql: str, connection_file: str
) -> DataFrame:
    # The names are unique to this call, so threads that share the session never meet.
    token = uuid.uuid4().hex
    views = {name: f"pgtrickle_{token}_{number}" for number, name in enumerate(inputs)}
    single = session.conf.get("spark.sql.shuffle.partitions") == "1"
    try:
        for name, value in inputs.items():
            frame = _frame(session, value, connection_file)
            # One partition that Spark knows to be one: joins then need no exchange.
            (frame.coalesce(1) if single else frame).createOrReplaceTempView(views[name])
        return session.sql(substitute(sql, views))
    finally:
        # The analysed query keeps what the views stand for.
        for view in views.values():
            session.catalog.dropTempView(view)


def _frame(session: SparkSession, value: Input, connection_file: str) -> DataFrame:
    if not isinstance(value, LargeRead):
        return session.createDataFrame(value)
    from pgtrickle.spark.pg_source import FORMAT, PostgresSource

    session.dataSource.register(PostgresSource)
    reader = session.read.format(FORMAT).schema(value.schema_ddl)
    return reader.options(**value.options(), connection_file=connection_file).load()
