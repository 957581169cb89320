"""Check that PostgreSQL accepts every text that a compiled query consists of.

The reads of a stage are its texts, and all of the stage where only PostgreSQL can compute it.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg import Connection
from sqlglot.errors import SqlglotError

from pgtrickle.binding.bind import concerns_query
from pgtrickle.delta.cut import RecomputeStage, StagedQuery, StatefulStage
from pgtrickle.errors import UnsupportedExpressionError
from pgtrickle.model.sql_type import Column, SqlType
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.plan.stages import StagePlan, plan_differential, plan_full, sources_of
from pgtrickle.sql.text.current_time import PRESENT, fill_times
from pgtrickle.sql.translate import Dialect


def check_stages(connection: Connection, staged: StagedQuery) -> None:
    """Raise ST106 for a text that cannot be written down again, before anything is created."""
    stored = {stage.name: _no_rows(stage) for stage in staged.stateful}
    plan_differential(staged, list(sources_of(staged)), Dialect.SPARK, stored.__getitem__)
    for stage in plan_full(staged, Dialect.SPARK, stored.__getitem__).stages:
        for place, text in _texts(stage):
            try:
                with connection.transaction():
                    connection.execute(trusted(f"SELECT * FROM ({text}) AS read LIMIT 0"))
            except (psycopg.Error, SqlglotError) as error:
                if isinstance(error, psycopg.Error) and not concerns_query(error):
                    raise
                raise UnsupportedExpressionError(
                    f"an expression over {place} cannot be written down again",
                    detail=str(error) if isinstance(error, psycopg.Error) else "",
                    hint="Create the stream table with refresh_mode = 'FULL' and report the query.",
                ) from error


def _texts(stage: StagePlan) -> Iterator[tuple[str, str]]:
    """Yield what PostgreSQL has to understand, each text with the name of its place."""
    if stage.dialect is Dialect.POSTGRES:
        text = fill_times(stage.as_query, PRESENT)
        yield ", ".join(dict.fromkeys(read.source for read in stage.reads)), text
        return
    for read in stage.reads:
        if read.relation is not None:
            yield read.source, fill_times(read.sql, PRESENT)


def _no_rows(stage: StatefulStage) -> str:
    """Write a query with the columns of a stage's stored rows, which do not exist yet."""
    columns = (
        stage.operator.outputs
        if isinstance(stage, RecomputeStage)
        else (*stage.layout.keys, *(Column(one.name, one.type) for one in stage.layout.shown))
    )
    listed = [f"{_nothing(one.type)} AS {quote_identifier(one.name)}" for one in columns]
    return f"SELECT {', '.join(listed) or '1 AS __one'} WHERE false"


def _nothing(type_: SqlType) -> str:
    """Write NULL of a type; as an element of an array a domain may be NULL that takes none."""
    collate = f" COLLATE {type_.collate}" if type_.collate else ""
    if type_.category == "A":  # there are no arrays of arrays
        return f"(NULL::{type_.display}){collate}"
    return f"((NULL::{type_.display}[])[1]){collate}"
