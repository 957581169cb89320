"""Compile a defining query: bind it in PostgreSQL, lower it, cut it into stages.

A query that no rule covers becomes one opaque source, which PostgreSQL answers as a whole and a
FULL refresh can read; the refusal says why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from psycopg import Connection
from psycopg.pq import TransactionStatus
from sqlglot.errors import ParseError, SqlglotError

from pgtrickle.algebra.nodes import Output, Query, Scalar, Scan, Source, SourceKind
from pgtrickle.algebra.schema import columns_of, scans_of
from pgtrickle.binding.bind import Binding, bind_again, bind_query
from pgtrickle.binding.bound_objects import check_meaning, get_bound_text, record_bound_objects
from pgtrickle.binding.composite_keys import without_one_text
from pgtrickle.binding.distinct_values import list_distinct_values
from pgtrickle.binding.expression_types import PgTyper
from pgtrickle.binding.pin_answers import pin_answers
from pgtrickle.binding.planning_bounds import DEFAULT_BOUNDS, Bounds, bounded_planning
from pgtrickle.binding.renamed_sources import follow_renamed_sources
from pgtrickle.binding.unique_keys import list_unique_keys
from pgtrickle.delta.cut import AggregateStage, RowsStage, StagedQuery, cut
from pgtrickle.delta.narrow import Key
from pgtrickle.errors import (
    UnsupportedExpressionError,
    UnsupportedQueryError,
    VolatileFunctionError,
)
from pgtrickle.model.bound_object import BoundObject
from pgtrickle.model.limited import Limited
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import RefreshMode, StreamTable
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.plan.engines import assign_engines
from pgtrickle.plan.stages import Known, StagePlan, sources_of
from pgtrickle.service.check_stages import check_stages
from pgtrickle.service.check_time import refuse_time, time_refusal
from pgtrickle.sql.bound import BoundQuery
from pgtrickle.sql.lower.query import lower
from pgtrickle.sql.refusal import Refusal, unsupported
from pgtrickle.sql.scalars import bare_column, column_scalar
from pgtrickle.sql.text.count_inputs import count_inputs
from pgtrickle.sql.text.current_time import AFTER_MARK, mark_times
from pgtrickle.sql.text.limits import allow_depth, check_bound, check_inputs, check_text, too_deep
from pgtrickle.sql.translate import Dialect

# Any of the sources may have changed alone or with others: the sets used last are kept.
ALL_COLUMNS = ""  # no column has this name; pgtrickle.describe_source knows it
_PLANS = 256
Plans: TypeAlias = Limited[tuple[str, frozenset[str], Dialect], StagePlan]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A defining query, ready to be planned."""

    binding: Binding
    staged: StagedQuery
    refusal: UnsupportedQueryError | UnsupportedExpressionError | VolatileFunctionError | None
    algebra: Query | None
    distinct: Mapping[int, Mapping[str, float]] = field(default_factory=dict, compare=False)
    unique: Mapping[int, Collection[Key]] = field(default_factory=dict, compare=False)
    follows_time: bool = False  # rows of it move as time passes, and how is known
    # Plans of stages by name, changed scans and engine: generating one costs as much as running it.
    plans: Plans = field(default_factory=lambda: Limited(_PLANS), compare=False)

    @property
    def opaque(self) -> bool:
        """Whether PostgreSQL answers the query as a whole."""
        return self.algebra is None

    def spread(self, scan: Scan, column: str) -> float:
        """Return the number of values of a column of a scan, as far as known (a ``Spread``)."""
        known = self.distinct.get(scan.source.relid, {})
        own = next((bare_column(one.scalar) for one in scan.outputs if one.name == column), None)
        return known.get(own, 1.0) if own is not None else 1.0

    @property
    def known(self) -> Known:
        """The known facts about the values of the sources."""
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

    def means(self, query: BoundQuery) -> bool:
        """Tell whether it was compiled from a query that means the same, wherever names are found.

        Compiling reads nothing else of a query that no rule refuses.
        """
        own = self.binding.query
        same = replace(own, search_path=query.search_path) == query
        return self.refusal is None and not self.opaque and same

    def as_opaque(self) -> Compiled:
        """Return the same query as one that PostgreSQL answers as a whole."""
        staged = _opaque(self.binding, follows_time=self.follows_time)
        return replace(self, staged=staged, algebra=None, plans=Limited(_PLANS))

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result."""
        return self.binding.query.columns

    @property
    def scanned(self) -> frozenset[int]:
        """The sources that the query itself reads, and not only its functions."""
        if self.refusal is not None:
            return frozenset(self.binding.query.reads)
        return frozenset(self.staged.captured_columns())

    def columns_used(self) -> dict[int, tuple[str, ...]]:
        """Return, by source, the columns whose changes matter.

        With ``ALL_COLUMNS`` among them, a column that is added to the source matters too.
        """
        found = (
            self.staged.captured_columns()
            if self.refusal is None
            else dict(self.binding.query.reads)
        )
        for relid, names in self.binding.watched.items():
            found[relid] = tuple(sorted({*found.get(relid, ()), *names}))
        return {
            relid: (*names, ALL_COLUMNS) if relid in self._whole else names
            for relid, names in found.items()
        }

    @property
    def _whole(self) -> frozenset[int]:
        """The sources whose whole rows are values: a column that is added to them matters."""
        if self.refusal is not None:
            return frozenset()
        return frozenset(
            scan.source.relid
            for stage in self.staged.stages
            for scan in scans_of(stage.body)
            if any(_makes_row(output.scalar) for output in scan.outputs)
            or (scan.predicate is not None and _makes_row(scan.predicate))
        )

    def captured_columns(self) -> dict[int, tuple[str, ...]]:
        """Return the same for the captured sources; the others are polled."""
        polled = {one.relid for one in self.binding.query.relations.values() if one.polled}
        used = self.columns_used()
        return {
            relid: tuple(name for name in columns if name)
            for relid, columns in used.items()
            if relid not in polled
        }


def compile_stream_table(
    connection: Connection,
    stream_table: StreamTable,
    bounds: Bounds = DEFAULT_BOUNDS,
    made: Compiled | None = None,
) -> Compiled:
    """Compile the query as bound at creation, or raise ST306 (docs/adr/0030).

    In the recorded text every name that is not PostgreSQL's own is qualified, so an unqualified
    name never finds an object that is created later. ``bounds`` limits the work; ``made`` is used
    if it was compiled from the same query a moment ago.
    """
    recorded = follow_renamed_sources(connection, stream_table)
    if recorded is None:
        recorded = get_bound_text(connection, stream_table.id)

    def check(found: Sequence[BoundObject]) -> None:
        if recorded.objects is not None:
            check_meaning(connection, stream_table.name, recorded.objects, found)

    with connection.transaction(force_rollback=True), bounded_planning(connection, bounds):
        set_search_path(connection, OWN_PATH)
        binding = replace(bind_again(connection, recorded.sql, check), pinned=recorded.pinned)
        compiled = compile_bound(connection, binding, stream_table.original_query, made)
    if stream_table.refresh_mode is not RefreshMode.FULL:
        check_volatile(compiled)  # a function may have become so
    if _lacks_record(recorded.objects, binding.objects) and _may_write(connection):
        record_bound_objects(
            connection, stream_table.id, binding.query.sql, binding.objects, recorded.pinned
        )
    return compiled


def _lacks_record(recorded: Sequence[BoundObject] | None, found: Sequence[BoundObject]) -> bool:
    """Return whether there is no record, or one with other functions of the same names."""
    if recorded is None:
        return True
    before = {(one.class_, one.name): one.candidates for one in recorded}
    return any(
        before.get((one.class_, one.name), one.candidates) != one.candidates for one in found
    )


def _may_write(connection: Connection) -> bool:
    """Return whether the caller has no open transaction, which may be read-only or roll back."""
    return connection.info.transaction_status is TransactionStatus.IDLE


def compile_query(
    connection: Connection,
    user_sql: str,
    search_path: str | None = None,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> Compiled:
    """Compile ``user_sql`` under this ``search_path``, or the session's; changes nothing."""
    check_text(user_sql)
    with connection.transaction(force_rollback=True), bounded_planning(connection, bounds):
        if search_path is not None:
            set_search_path(connection, search_path)
        binding = pin_answers(connection, bind_query(connection, user_sql))
        return compile_bound(connection, binding, user_sql)


def set_search_path(connection: Connection, search_path: str) -> None:
    """Resolve names on this search path until the transaction ends."""
    connection.execute("SELECT pg_catalog.set_config('search_path', %s, true)", [search_path])


def compile_bound(
    connection: Connection, binding: Binding, user_sql: str, made: Compiled | None = None
) -> Compiled:
    """Compile a bound query; sets our own ``search_path`` for the rest of the transaction."""
    connection.execute("SET LOCAL search_path = pg_catalog, pg_temp")
    for volatile in binding.volatile:
        return Compiled(binding, _opaque(binding), volatile, None)
    for refusal in function_refusals(binding):
        return Compiled(binding, _opaque(binding), unsupported(refusal, user_sql), None)
    if made is not None and made.means(binding.query):
        return replace(made, binding=binding)
    try:
        algebra, staged = build(connection, binding.query)
        if binding.time_dependent:
            refuse_time(staged)
    except Refusal as refusal:
        return Compiled(binding, _opaque(binding), unsupported(refusal, user_sql), None)
    except UnsupportedExpressionError as error:
        return Compiled(binding, _opaque(binding), error, None)
    relids = list(sources_of(staged).values())
    distinct = list_distinct_values(connection, relids)
    unique = list_unique_keys(connection, relids)
    follows = binding.time_dependent
    return Compiled(binding, staged, None, algebra, distinct, unique, follows)


def build(connection: Connection, query: BoundQuery) -> tuple[Query, StagedQuery]:
    """Lower a bound query and cut it into stages.

    Raises ``Refusal`` or ST106 for the first construct that no rule covers.
    """
    allow_depth()
    try:
        for text in (query.sql, *(one.definition for one in query.relations.values())):
            check_bound(text or "")
        inputs = count_inputs(query)
        check_inputs(inputs.most, inputs.all)
        typer = PgTyper(connection)
        algebra = lower(query, typer)
        staged = assign_engines(cut(algebra, typer))
        _refuse_keys(connection, staged)
        _refuse_rows(staged)
        check_stages(connection, staged)
    except SqlglotError as error:
        raise _unreadable(error) from error
    except RecursionError:
        raise too_deep() from None
    return algebra, staged


def _unreadable(error: SqlglotError) -> Refusal:
    """Name the word at which the parser stopped, and not what it says about it."""
    found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    word = str(found.get("highlight") or "").strip()
    before = str(found.get("start_context") or "").split()
    if not word:
        return Refusal("syntax that only PostgreSQL reads")
    near = f"{before[-1]} {word}" if before else word
    return Refusal(f'syntax that only PostgreSQL reads, near "{near}"', near, word)


def function_refusals(binding: Binding) -> Iterator[Refusal]:
    """Yield the refusals that the functions of a query cause, wherever they are called."""
    yield from binding.refusals
    if binding.time_unfollowed:
        yield time_refusal(binding.time_unfollowed)


def _refuse_keys(connection: Connection, staged: StagedQuery) -> None:
    """Refuse groups by composite values of which equal ones may have several texts."""
    keys = [
        key.type
        for stage in staged.stateful
        for key in (stage.layout.keys if isinstance(stage, AggregateStage) else stage.inputs)
    ]
    composite = {type_.display for type_ in keys if type_.category == "C"}
    for name in sorted(without_one_text(connection, composite)):
        raise Refusal(
            f"groups by the composite type {name}",
            "group by",
            "distinct",
            hint="Group by its columns, or declare the scale of those that are numeric.",
        )


def _makes_row(scalar: Scalar) -> bool:
    return "ROW(" in scalar.sql


def _refuse_rows(staged: StagedQuery) -> None:
    """Refuse values of no named type between two stages: no table can hold them."""
    for stage in staged.stages:
        read = [output.column for scan in scans_of(stage.body) for output in scan.outputs]
        for one in (*read, *columns_of(stage.body)):
            if one.type.base in {"record", "_record"}:
                raise Refusal(
                    "a row of no named type that has to be stored",
                    "row",
                    hint="Cast it to a composite type, or list its columns.",
                )


def check_refresh_mode(compiled: Compiled, refresh_mode: RefreshMode) -> None:
    """Refuse a refresh mode that the query cannot have."""
    if refresh_mode is not RefreshMode.FULL:
        check_volatile(compiled)
    if compiled.refusal is not None and refresh_mode is RefreshMode.DIFFERENTIAL:
        raise compiled.refusal


def check_volatile(compiled: Compiled) -> None:
    """Raise ST103 if the query gives other rows for the same data."""
    for volatile in compiled.binding.volatile:
        raise volatile


def effective_mode(compiled: Compiled, refresh_mode: RefreshMode) -> tuple[RefreshMode, str | None]:
    """Return the effective refresh mode, and the reason if it is not the one asked for."""
    if refresh_mode is RefreshMode.AUTO and compiled.refusal is not None:
        return RefreshMode.FULL, str(compiled.refusal)
    if refresh_mode is RefreshMode.AUTO:
        return RefreshMode.DIFFERENTIAL, None
    return refresh_mode, None


def _opaque(binding: Binding, *, follows_time: bool = False) -> StagedQuery:
    """Wrap a query that only PostgreSQL can answer as one source."""
    sql = binding.query.sql
    columns = binding.query.columns
    read = tuple(
        Output(f"column_{number}", column_scalar(column.name), column.type)
        for number, column in enumerate(columns, 1)
    )
    shown = tuple(
        Output(column.name, column_scalar(output.name), column.type)
        for column, output in zip(columns, read, strict=True)
    )
    source = Source(
        SourceKind.QUERY, "query", query=mark_times(sql, AFTER_MARK) if follows_time else sql
    )
    return StagedQuery((), RowsStage("result", Scan(source, "query", read), shown))
