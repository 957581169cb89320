"""``validate_query``: whether and how a query could be maintained, without creating anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from psycopg import Connection

from pgtrickle.binding.bind import Binding, examine_query
from pgtrickle.binding.pin_answers import pin_answers
from pgtrickle.binding.planning_bounds import Bounds, bounded_planning
from pgtrickle.capture.sources import get_source
from pgtrickle.errors import TrickleError
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import RefreshMode
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.shown import Shown
from pgtrickle.service.capturing.polled_sources import polling_problems
from pgtrickle.service.compile import Compiled, compile_bound, set_search_path
from pgtrickle.service.insight.explanation.build import explain
from pgtrickle.service.insight.explanation.model import Explanation
from pgtrickle.service.lifecycle.create import check_columns
from pgtrickle.service.lifecycle.refusals import find_refusals
from pgtrickle.service.runtime import Runtime
from pgtrickle.sql.text.limits import check_text


@dataclass(frozen=True, slots=True)
class SourceNote:
    """A table that the query reads, and its columns that would be captured."""

    name: QualifiedName
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Validation(Shown):
    """The result of creating a stream table with this query."""

    in_report: ClassVar[tuple[str, ...]] = (
        "refresh_mode",
        "differential",
        "usable",
        "reasons",
        "columns",
        "sources",
    )

    differential: bool  # DIFFERENTIAL would be accepted
    usable: bool  # AUTO and FULL would be accepted
    reasons: tuple[TrickleError, ...]  # for the answers no
    columns: tuple[Column, ...] = ()
    sources: tuple[SourceNote, ...] = ()
    explanation: Explanation | None = None

    @property
    def refresh_mode(self) -> RefreshMode | None:
        """The effective mode of AUTO; None if the query cannot be a stream table."""
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
            bounded_planning(connection, Bounds.of(runtime.settings)),
        ):
            set_search_path(connection, runtime.users_path(search_path))
            return _validate(runtime, connection, query)
    except TrickleError as error:
        if not error.code.startswith("ST1"):
            raise  # not caused by the query: the server is gone, for example
        return Validation(differential=False, usable=False, reasons=(error,))


def _validate(runtime: Runtime, connection: Connection, query: str) -> Validation:
    binding = pin_answers(connection, examine_query(connection, query))
    compiled = compile_bound(connection, binding, query)
    problems = [
        *binding.problems,
        *binding.volatile,
        *polling_problems(runtime.settings, compiled),
        *_capture_problems(connection, binding, compiled),
    ]
    refusals = find_refusals(connection, binding, query) if compiled.refusal else []
    if compiled.refusal and not refusals and not binding.volatile:
        refusals = [compiled.refusal]
    return Validation(
        differential=not problems and not refusals,
        usable=not problems,
        reasons=(*problems, *refusals),
        columns=compiled.columns,
        sources=_sources(binding, compiled),
        explanation=explain(
            connection, compiled, runtime.dialect_of(runtime.engine_mode(None)), None
        ),
    )


def _capture_problems(
    connection: Connection, binding: Binding, compiled: Compiled
) -> list[TrickleError]:
    """Return why sources cannot be captured, or columns of the result are impossible."""
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
            if error.code not in known:  # already reported for the same relation
                problems.append(error)
    return problems


def _sources(binding: Binding, compiled: Compiled) -> tuple[SourceNote, ...]:
    names = {relation.relid: relation.name for relation in binding.query.relations.values()}
    notes = (
        SourceNote(names[relid], tuple(filter(None, columns)))
        for relid, columns in compiled.columns_used().items()
    )
    return tuple(sorted(notes, key=lambda note: note.name))
