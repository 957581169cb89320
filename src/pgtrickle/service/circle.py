"""Refresh the members of a circle: compute their least fixpoint, apply what differs.

All of it happens in the one transaction of ``refresh_together``, in PostgreSQL: see docs/adr/0023.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from psycopg import Connection

from pgtrickle.algebra.nodes import Output
from pgtrickle.capture.buffers import buffer_of, list_buffer_columns
from pgtrickle.capture.windows import only_inserted, window_predicate
from pgtrickle.catalog.circles import update_iterations
from pgtrickle.catalog.dependencies import Dependency
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import TrickleError
from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import Action, StreamTable
from pgtrickle.refresh.decide import Decision, Facts, decide_circle
from pgtrickle.service.compile import Compiled, compile_stream_table
from pgtrickle.service.facts import captured
from pgtrickle.service.lake_sink import track
from pgtrickle.service.refresh import ReadInVainError, Refresh
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.snapshot import BufferView, Snapshot
from pgtrickle.sql.bound import Relation
from pgtrickle.sql.fixpoint import Equation
from pgtrickle.sql.scalars import column_scalar
from pgtrickle.storage.apply import (
    Applied,
    apply_result,
    ensure_row_index,
    load_result,
    weigh_result,
)
from pgtrickle.storage.fixpoint import Fixpoint, Unknown


@dataclass(frozen=True, slots=True)
class CircleMember:
    """One of the circle, and its refresh as far as it has come."""

    refresh: Refresh
    compiled: Compiled
    dependencies: Sequence[Dependency]

    @property
    def unknown(self) -> Unknown:
        """What the member is to the fixpoint."""
        return _unknown(self.refresh.stream_table, self.compiled)


def find_least(runtime: Runtime, connection: Connection, names: Sequence[QualifiedName]) -> None:
    """Leave the least fixpoint of a circle in temporary tables: see ``least_rows``."""
    tables = [get_stream_table(connection, name) for name in names]
    seconds = runtime.settings.planning_timeout_seconds
    unknowns = [_unknown(one, compile_stream_table(connection, one, seconds)) for one in tables]
    limit = runtime.settings.max_fixpoint_iterations
    Fixpoint(connection, unknowns, limit, from_contents=False).run()


def least_rows(stream_table: StreamTable, compiled: Compiled) -> str:
    """Write the query of what ``find_least`` has found for a member."""
    unknown = _unknown(stream_table, compiled)
    return f"SELECT {unknown.listed} FROM {unknown.found}"


def _unknown(stream_table: StreamTable, compiled: Compiled) -> Unknown:
    """Return what a member is to the fixpoint."""
    query = compiled.binding.query
    return Unknown(stream_table.relid, stream_table.name, query.columns, Equation.of(query))


@dataclass(slots=True)
class CircleRefresh:
    """The refresh of all members of one circle in the transaction of a snapshot that writes."""

    runtime: Runtime
    snapshot: Snapshot
    members: Sequence[CircleMember]
    clear: Callable[[Connection, Collection[str]], None]  # drops temporary tables, but for these
    meeting: Callable[[Refresh], None] = lambda _: None  # told whose turn it is

    @property
    def _own(self) -> frozenset[int]:
        return frozenset(one.refresh.stream_table.relid for one in self.members)

    def run(self, buffers: BufferView) -> list[RefreshReport] | None:
        """Refresh them, or return None if the snapshot sees other sources than were captured."""
        found = []
        for member in self.members:
            self.meeting(member.refresh)
            findings = member.refresh.look(
                self.snapshot, buffers, member.compiled, member.dependencies, priced=False
            )
            if findings is None:
                return None
            found.append(findings.facts)
        decision = self._decide(found, buffers)
        for member in self.members:
            self.meeting(member.refresh)
            member.refresh.decision = decision
            member.refresh.check_fuse(self.snapshot)
        try:
            if decision.action is Action.NO_DATA:
                return [
                    one.refresh.commit_nothing(self.snapshot, one.compiled) for one in self.members
                ]
            return self.execute()
        except ReadInVainError:
            return None
        except TrickleError:
            vain = any(one.refresh.read_in_vain() for one in self.members)
            if self.snapshot.connection.closed or not vain:
                raise
            return None

    def _decide(self, facts: Sequence[Facts], buffers: BufferView) -> Decision:
        """Decide for all: new rows alone can be followed, anything else starts from nothing."""
        windows = [
            (source.source_relid, frontier.snapshot)
            for member in self.members
            for frontier in [member.refresh.stream_table.frontier]
            for source in captured(member.dependencies)
            if frontier is not None
        ]
        grown = (
            # What came from the log is in buffers that this transaction does not see.
            buffers.upper is None
            and only_inserted(buffers.connection, [one for one in windows if not self._is_own(one)])
            and only_inserted(buffers.connection, list(filter(self._is_own, windows)), none=True)
        )
        return decide_circle(facts, grown=grown)

    def _is_own(self, window: tuple[int, object]) -> bool:
        return window[0] in self._own

    def execute(self) -> list[RefreshReport]:
        """Compute the fixpoint as decided, apply it and commit each member's part of it."""
        writer, unknowns = self.snapshot.connection, [one.unknown for one in self.members]
        refreshes = {
            unknown.relid: one.refresh for unknown, one in zip(unknowns, self.members, strict=True)
        }

        def check(unknown: Unknown) -> None:
            self.meeting(refreshes[unknown.relid])
            refreshes[unknown.relid].check_cancelled()

        grows = self.members[0].refresh.decision_made.action is Action.DIFFERENTIAL
        limit = self.runtime.settings.max_fixpoint_iterations
        fixpoint = Fixpoint(writer, unknowns, limit, from_contents=grows, check=check)
        first = self.members[0].refresh
        with ExitStack() as stack:
            for one in self.members:
                name = str(one.refresh.stream_table.name)
                stack.enter_context(self.runtime.jobs.named(name))
            # What fails is taken back alone, so that the failure can be told apart.
            stack.enter_context(writer.transaction())
            with first.timed("compute"), translated_errors():
                iterations = fixpoint.run(self._inserted() if grows else None)
            keep = [one.table for one in unknowns]
            return [
                self._apply(member, unknown, iterations, grows=grows, keep=keep)
                for member, unknown in zip(self.members, unknowns, strict=True)
            ]

    def _inserted(self) -> dict[int, dict[int, str]]:
        """Return for each member the queries of what was inserted into what it reads."""
        found: dict[int, dict[int, str]] = {}
        for member in self.members:
            table = member.refresh.stream_table
            relations = {one.relid: one for one in member.compiled.binding.query.relations.values()}
            found[table.relid] = {
                one.source_relid: self._insert_of(member, relations[one.source_relid])
                for one in captured(member.dependencies)
                if one.source_relid not in self._own
            }
        return found

    def _insert_of(self, member: CircleMember, relation: Relation) -> str:
        frontier = member.refresh.stream_table.frontier
        there: Mapping[str, str] = (
            list_buffer_columns(self.snapshot.connection, relation.relid) or {}
        )
        # A column that was not captured is one on which nothing depends.
        listed = ", ".join(
            f"{name if one.name in there else 'NULL'}::{one.type.display} AS {name}"
            for one in relation.columns
            for name in [quote_identifier(one.name)]
        )
        window = "true" if frontier is None else window_predicate(frontier.snapshot)
        return (
            f"SELECT {listed} FROM {buffer_of(relation.relid).sql} WHERE {window} AND __weight > 0"
        )

    def _apply(
        self,
        member: CircleMember,
        unknown: Unknown,
        iterations: int,
        *,
        grows: bool,
        keep: Collection[str],
    ) -> RefreshReport:
        """Turn the rows of one member into those that were found, and commit its part."""
        refresh, writer = member.refresh, self.snapshot.connection
        self.meeting(refresh)
        refresh.check_cancelled()
        decision = refresh.decision_made
        times = "1 round" if iterations == 1 else f"{iterations} rounds"
        refresh.decision = replace(decision, reason=f"{decision.reason}; fixpoint after {times}")
        with refresh.timed("apply"), translated_errors():
            applied = self._applied(member, unknown, grows=grows)
        update_iterations(writer, refresh.stream_table.id, iterations)
        with refresh.timed("commit"):
            report = refresh.commit(writer, self.snapshot, member.compiled, applied)
        self.clear(writer, keep)
        return report

    def _applied(self, member: CircleMember, unknown: Unknown, *, grows: bool) -> Applied:
        refresh, writer = member.refresh, self.snapshot.connection
        name, columns = unknown.name, unknown.columns
        outputs = [Output(one.name, column_scalar(one.name), one.type) for one in columns]
        refresh.tracking = track(writer, refresh.stream_table, member.compiled)
        if not grows:
            applied = load_result(writer, name, outputs, unknown.found, None, weight="1")
            ensure_row_index(writer, name, columns)
            if applied is not None:
                refresh.tracking = None  # filled from nothing: a sink takes all of it
                return applied
        less = None if grows else name
        weigh_result(writer, outputs, unknown.found, None, weight="1", less=less)
        return apply_result(writer, name, columns, refresh.tracking)
