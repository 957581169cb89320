"""Compile a defining query: bind it in PostgreSQL, lower it, cut it into stages.

What no rule covers is not lost: the query is then one opaque source that PostgreSQL answers
whole, which a FULL refresh can read, and the refusal says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import psycopg
from psycopg import Connection
from psycopg.pq import TransactionStatus
from sqlglot.errors import SqlglotError

from pgtrickle.algebra.nodes import Output, Query, Scan, Source, SourceKind
from pgtrickle.catalog.bind import Binding, bind_again, bind_query, concerns_query
from pgtrickle.catalog.bound_objects import check_meaning, get_bound_text, record_bound_objects
from pgtrickle.catalog.distinct_values import list_distinct_values
from pgtrickle.catalog.planning import PLANNING_SECONDS, bounded_planning
from pgtrickle.catalog.typer import PgTyper
from pgtrickle.catalog.unique_keys import list_unique_keys
from pgtrickle.delta.cut import AggregateStage, RowsStage, StagedQuery, cut
from pgtrickle.delta.narrow import Key
from pgtrickle.errors import UnsupportedExpressionError, UnsupportedQueryError
from pgtrickle.model.bound_object import BoundObject
from pgtrickle.model.search_path import OWN_PATH
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.refresh.stages import Known, StagePlan, plan_differential, plan_full, sources_of
from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.count_inputs import count_inputs
from pgtrickle.sql.limits import allow_depth, check_bound, check_inputs, check_text, too_deep
from pgtrickle.sql.lower import lower
from pgtrickle.sql.refusal import Refusal, unsupported
from pgtrickle.sql.scalars import bare_column, column_scalar
from pgtrickle.sql.translate import Dialect

_TIME_WORDS = (
    "now",
    "current_date",
    "current_timestamp",
    "current_time",
    "localtimestamp",
    "localtime",
    "age",
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A defining query, ready to be planned."""

    binding: Binding
    staged: StagedQuery
    refusal: UnsupportedQueryError | UnsupportedExpressionError | None
    algebra: Query | None
    distinct: Mapping[int, Mapping[str, float]] = field(default_factory=dict, compare=False)
    unique: Mapping[int, Collection[Key]] = field(default_factory=dict, compare=False)
    # Plans of stages by name and changed scans: writing one down costs as much as running it.
    plans: dict[tuple[str, frozenset[str]], StagePlan] = field(default_factory=dict, compare=False)

    @property
    def opaque(self) -> bool:
        """Whether PostgreSQL answers the query whole."""
        return self.algebra is None

    def spread(self, scan: Scan, column: str) -> float:
        """Return how many values a column of a scan has, as far as is known (a ``Spread``)."""
        known = self.distinct.get(scan.source.relid, {})
        own = next((bare_column(one.scalar) for one in scan.outputs if one.name == column), None)
        return known.get(own, 1.0) if own is not None else 1.0

    @property
    def known(self) -> Known:
        """What is known of the values of the sources."""
        return Known(self.spread, self.keys)

    def keys(self, scan: Scan) -> Collection[Key]:
        """Return the columns of a scan's source whose values no two rows share (``Keys``)."""
        if scan.source.kind is SourceKind.STATE:
            return [
                frozenset(key.name for key in stage.layout.keys)
                for stage in self.staged.stateful
                if stage.name == scan.source.key and isinstance(stage, AggregateStage)
            ]
        return self.unique.get(scan.source.relid, ())

    def as_opaque(self) -> Compiled:
        """Return the same query as one that PostgreSQL answers whole."""
        return replace(self, staged=_opaque(self.binding), algebra=None, plans={})

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result."""
        return self.binding.query.columns

    def columns_used(self) -> dict[int, tuple[str, ...]]:
        """Return, by source, the columns whose changes matter."""
        if self.refusal is not None:
            return dict(self.binding.query.reads)
        return self.staged.captured_columns()

    def captured_columns(self) -> dict[int, tuple[str, ...]]:
        """Return the same of the sources that triggers capture; the others are polled."""
        polled = {one.relid for one in self.binding.query.relations.values() if one.polled}
        used = self.columns_used()
        return {relid: columns for relid, columns in used.items() if relid not in polled}


def compile_stream_table(
    connection: Connection, stream_table: StreamTable, seconds: float = PLANNING_SECONDS
) -> Compiled:
    """Compile what was bound when a stream table was created, or raise ST306 (docs/adr/0030).

    The text on record has every name qualified that is not PostgreSQL's own, so nothing that is
    created later is found under the names that are not.  No statement may take ``seconds``.
    """
    recorded = get_bound_text(connection, stream_table.id)

    def check(found: Sequence[BoundObject]) -> None:
        if recorded.objects is not None:
            check_meaning(connection, stream_table.name, recorded.objects, found)

    with connection.transaction(force_rollback=True), bounded_planning(connection, seconds):
        set_search_path(connection, OWN_PATH)
        binding = bind_again(connection, recorded.sql, check)
        compiled = compile_bound(connection, binding, stream_table.original_query)
    if _lacks_record(recorded.objects, binding.objects) and _may_write(connection):
        record_bound_objects(connection, stream_table.id, binding.objects)
    return compiled


def _lacks_record(recorded: Sequence[BoundObject] | None, found: Sequence[BoundObject]) -> bool:
    """Tell whether there is none yet, or one in which other functions have the same names."""
    if recorded is None:
        return True
    before = {(one.class_, one.name): one.candidates for one in recorded}
    return any(
        before.get((one.class_, one.name), one.candidates) != one.candidates for one in found
    )


def _may_write(connection: Connection) -> bool:
    """Tell whether no transaction of the caller's is open, which may be read only or roll back."""
    return connection.info.transaction_status is TransactionStatus.IDLE


def compile_query(
    connection: Connection,
    user_sql: str,
    search_path: str | None = None,
    seconds: float = PLANNING_SECONDS,
) -> Compiled:
    """Compile ``user_sql`` under this ``search_path``, or the session's; changes nothing."""
    check_text(user_sql)
    with connection.transaction(force_rollback=True), bounded_planning(connection, seconds):
        if search_path is not None:
            set_search_path(connection, search_path)
        return compile_bound(connection, bind_query(connection, user_sql), user_sql)


def set_search_path(connection: Connection, search_path: str) -> None:
    """Let names mean what they mean to someone else, until the transaction ends."""
    connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [search_path])


def compile_bound(connection: Connection, binding: Binding, user_sql: str) -> Compiled:
    """Compile what PostgreSQL has bound; leaves its own ``search_path`` to the transaction."""
    connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    for refusal in function_refusals(binding):
        return Compiled(binding, _opaque(binding), unsupported(refusal, user_sql), None)
    try:
        algebra, staged = build(connection, binding.query)
    except Refusal as refusal:
        return Compiled(binding, _opaque(binding), unsupported(refusal, user_sql), None)
    except UnsupportedExpressionError as error:
        return Compiled(binding, _opaque(binding), error, None)
    relids = list(sources_of(staged).values())
    distinct = list_distinct_values(connection, relids)
    return Compiled(binding, staged, None, algebra, distinct, list_unique_keys(connection, relids))


def build(connection: Connection, query: BoundQuery) -> tuple[Query, StagedQuery]:
    """Lower a bound query and cut it into stages.

    Raises ``Refusal`` or ST106 for the first thing that no rule covers.
    """
    allow_depth()
    try:
        for text in (query.sql, *(one.definition for one in query.relations.values())):
            check_bound(text or "")
        check_inputs(count_inputs(query))
        typer = PgTyper(connection)
        algebra = lower(query, typer)
        staged = cut(algebra, typer)
        _refuse_keys(staged)
        _check(connection, staged)
    except SqlglotError as error:
        raise Refusal(f"this syntax: {str(error).splitlines()[0]}") from error
    except RecursionError:
        raise too_deep() from None
    return algebra, staged


def function_refusals(binding: Binding) -> Iterator[Refusal]:
    """Yield what the functions of a query rule out, wherever they are called."""
    yield from binding.refusals
    if binding.time_dependent:
        yield Refusal(
            "a function of the current time",
            *_TIME_WORDS,
            hint="Rows would have to leave as time passes, without any change; use"
            " refresh_mode = 'FULL' or 'AUTO', or keep the time in a table.",
        )


def _refuse_keys(staged: StagedQuery) -> None:
    """Refuse groups by composite values: stored rows are compared by their text.

    (1.0) and (1.00) are one group for PostgreSQL, but two texts.
    """
    for stage in staged.stateful:
        keys = stage.layout.keys if isinstance(stage, AggregateStage) else stage.inputs
        for key in keys:
            if key.type.category == "C":
                raise Refusal(
                    f"groups by the composite type {key.type.display}", "group by", "distinct"
                )


def effective_mode(compiled: Compiled, refresh_mode: RefreshMode) -> tuple[RefreshMode, str | None]:
    """Return how a query can really be maintained, and why if that is less than was asked."""
    if refresh_mode is RefreshMode.AUTO and compiled.refusal is not None:
        return RefreshMode.FULL, str(compiled.refusal)
    if refresh_mode is RefreshMode.AUTO:
        return RefreshMode.DIFFERENTIAL, None
    return refresh_mode, None


def _check(connection: Connection, staged: StagedQuery) -> None:
    """Make sure that every read and every expression can be written, before anything exists."""
    plan_differential(staged, list(sources_of(staged)), Dialect.SPARK, _no_state)
    for stage in plan_full(staged, Dialect.SPARK, _no_state).stages:
        for read in stage.reads:
            if read.relation is None:
                continue
            try:
                with connection.transaction():
                    connection.execute(f"SELECT * FROM ({read.sql}) AS read LIMIT 0".encode())
            except (psycopg.Error, SqlglotError) as error:
                if isinstance(error, psycopg.Error) and not concerns_query(error):
                    raise
                raise UnsupportedExpressionError(
                    f"an expression over {read.source} cannot be written down again",
                    detail=str(error),
                    hint="Create the stream table with refresh_mode = 'FULL' and report the query.",
                ) from error


def _no_state(stage: str) -> str:
    return f"SELECT * FROM {stage}"


def _opaque(binding: Binding) -> StagedQuery:
    """Wrap a query that only PostgreSQL can answer as one source."""
    columns = binding.query.columns
    read = tuple(
        Output(f"column_{number}", column_scalar(column.name), column.type)
        for number, column in enumerate(columns, 1)
    )
    shown = tuple(
        Output(column.name, column_scalar(output.name), column.type)
        for column, output in zip(columns, read, strict=True)
    )
    source = Source(SourceKind.QUERY, "query", query=binding.query.sql)
    return StagedQuery((), RowsStage("result", Scan(source, "query", read), shown))
