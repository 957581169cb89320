"""``validate_query``: whether and how a query could be maintained, without creating anything."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.capture.sources import get_source
from pgtrickle.catalog.bind import Binding, examine_query
from pgtrickle.catalog.planning import bounded_planning
from pgtrickle.errors import TrickleError
from pgtrickle.model.names import QualifiedName
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import RefreshMode
from pgtrickle.service.compile import Compiled, compile_bound, set_search_path
from pgtrickle.service.create import check_columns
from pgtrickle.service.explanation.build import explain
from pgtrickle.service.explanation.model import Explanation
from pgtrickle.service.polled_sources import polling_problems
from pgtrickle.service.refusals import find_refusals
from pgtrickle.service.runtime import Runtime
from pgtrickle.sql.limits import check_text


@dataclass(frozen=True, slots=True)
class SourceNote:
    """A table that the query reads, and which of its columns would be captured."""

    name: QualifiedName
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Validation:
    """What creating a stream table of a query would come to."""

    differential: bool  # DIFFERENTIAL would be accepted
    usable: bool  # AUTO and FULL would be
    reasons: tuple[TrickleError, ...]  # why not
    columns: tuple[Column, ...] = ()
    sources: tuple[SourceNote, ...] = ()
    explanation: Explanation | None = None

    @property
    def refresh_mode(self) -> RefreshMode | None:
        """The mode that AUTO would come to; None where the query cannot be a stream table."""
        if not self.usable:
            return None
        return RefreshMode.DIFFERENTIAL if self.differential else RefreshMode.FULL


def validate_query(runtime: Runtime, query: str, search_path: str | None = None) -> Validation:
    """Bind, compile and plan a query inside a transaction that is rolled back."""
    try:
        check_text(query)
        with (
            runtime.connection() as connection,
            connection.transaction(force_rollback=True),
            bounded_planning(connection, runtime.settings.planning_timeout_seconds),
        ):
            set_search_path(connection, runtime.users_path(search_path))
            return _validate(runtime, connection, query)
    except TrickleError as error:
        if not error.code.startswith("ST1"):
            raise  # not a property of the query: the server is away, say
        return Validation(differential=False, usable=False, reasons=(error,))


def _validate(runtime: Runtime, connection: Connection, query: str) -> Validation:
    binding = examine_query(connection, query)
    compiled = compile_bound(connection, binding, query)
    problems = [
        *binding.problems,
        *polling_problems(runtime.settings, compiled),
        *_capture_problems(connection, binding, compiled),
    ]
    refusals = find_refusals(connection, binding, query) if compiled.refusal else []
    if compiled.refusal and not refusals:
        refusals = [compiled.refusal]
    return Validation(
        differential=not problems and not refusals,
        usable=not problems,
        reasons=(*problems, *refusals),
        columns=compiled.columns,
        sources=_sources(binding, compiled),
        explanation=explain(connection, compiled, runtime.engine.dialect, None),
    )


def _capture_problems(
    connection: Connection, binding: Binding, compiled: Compiled
) -> list[TrickleError]:
    """Return why sources cannot be captured, or the result's columns cannot be had."""
    problems: list[TrickleError] = []
    known = {problem.code for problem in binding.problems}
    try:
        check_columns(compiled)
    except TrickleError as error:
        problems.append(error)
    for relid, columns in compiled.captured_columns().items():
        try:
            get_source(connection, relid, columns)
        except TrickleError as error:
            if error.code not in known:  # said already, of the same relation
                problems.append(error)
    return problems


def _sources(binding: Binding, compiled: Compiled) -> tuple[SourceNote, ...]:
    names = {relation.relid: relation.name for relation in binding.query.relations.values()}
    notes = (
        SourceNote(names[relid], columns) for relid, columns in compiled.columns_used().items()
    )
    return tuple(sorted(notes, key=lambda note: note.name))
