"""``verify_stream_table``: compare a stream table with PostgreSQL's own answer.

The comparison runs at one moment: under the lease the table is refreshed to a snapshot, and under
that same snapshot PostgreSQL answers the defining query, while writers and refreshes continue.
Floating-point columns may differ in their last digits, because a sum depends on the order of its
terms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from psycopg import Connection

from pgtrickle.binding.planning_bounds import Bounds
from pgtrickle.capture.fingerprint import list_all_files
from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.graph import list_companions
from pgtrickle.catalog.refreshes.leases import release_lease
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.errors import InternalError, VolatileFunctionError
from pgtrickle.model.report import VerifyReport
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import InitiatedBy, RefreshMode
from pgtrickle.model.text.comparable import comparable
from pgtrickle.model.text.names import QualifiedName, quote_identifier
from pgtrickle.model.text.trusted import trusted
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import compile_stream_table
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.lifecycle.replacing.copied_members import (
    Copy,
    copy_rows,
    create_temporary,
    imported,
    list_copies,
    write_over_copies,
)
from pgtrickle.service.refreshing.commit import Committed, deliver_rest
from pgtrickle.service.refreshing.failures import recorded
from pgtrickle.service.refreshing.groups.circle import find_least, least_rows
from pgtrickle.service.refreshing.groups.together import refresh_together
from pgtrickle.service.refreshing.refresh import Prepared, Refresh
from pgtrickle.service.refreshing.run import run_refresh
from pgtrickle.service.refreshing.snapshot import Snapshot, open_snapshot
from pgtrickle.service.refreshing.start_again import StartAgainError
from pgtrickle.service.runtime import Runtime, translated_errors

_SAMPLE = 10
_RELATIVE_TOLERANCE = 1e-9
_MAX_TOLERATED = 100_000  # rows that are paired one by one; more rows certainly differ
_STORED = QualifiedName("pg_temp", "pgtrickle__stored")
_FLOATS = frozenset({"float4", "float8"})

_Rows = Counter[tuple[str | None, ...]]


def verify_stream_table(runtime: Runtime, name: QualifiedName) -> VerifyReport:
    """Refresh under the lease and compare at the new frontier.

    The stored rows are copied under the lease and compared without it, so that refreshes continue.
    """
    with runtime.connection() as connection:
        _refuse_volatile(runtime, connection, name)
        names = list_companions(connection, name)
        circle = list_members(connection, name)
        immediate = get_stream_table(connection, name).refresh_mode is RefreshMode.IMMEDIATE
    if immediate:
        return _verify_as_it_is(runtime, name)
    if len(names) > 1 or circle:
        return _verify_together(runtime, names)
    return _verify_alone(runtime, name)


def _refuse_volatile(runtime: Runtime, connection: Connection, name: QualifiedName) -> None:
    """Raise ST103 for a query that would give other rows now."""
    stream_table = get_stream_table(connection, name)
    if stream_table.refresh_mode is not RefreshMode.FULL:
        return
    compiled = compile_stream_table(connection, stream_table, Bounds.of(runtime.settings))
    for volatile in compiled.binding.volatile:
        raise VolatileFunctionError(
            f'"{name}" cannot be verified: {volatile}',
            detail=volatile.detail,
            hint="Such a query gives other rows each time, and none of them is the right answer.",
        )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A stream table, and a transaction that can compute its right contents."""

    reader: Connection
    verified: Prepared
    answer: str  # the query that returns the right contents
    circle: Sequence[Prepared] = ()  # to which it belongs
    copies: Sequence[Copy] = ()  # of members of its group
    indexes: Sequence[str] = ()  # statements that create the members' indexes on the copies

    def hold_sources(self) -> None:
        """Lock the sources, and start again if they are not those that the snapshot saw.

        A source that was truncated or rewritten looks empty to an earlier snapshot.
        """
        for sql in [one.compiled.binding.query.sql for one in self.circle] or [self.answer]:
            self.reader.execute(trusted(f"SELECT FROM ({sql}) AS answer LIMIT 0"))
        readers = self.circle or [self.verified]
        relids = sorted({one for reader in readers for one in reader.compiled.binding.query.reads})
        target = self.verified.stream_table.relid
        seen = list_all_files(self.reader, relids, target)
        with self.verified.refresh.runtime.connection() as current:
            if list_all_files(current, relids, target) != seen:
                raise StartAgainError(self.verified.refresh)

    def store(self, source: Connection) -> None:
        """Copy the stored rows, as another transaction or this one sees them."""
        name, columns = self.verified.stream_table.name, self.verified.compiled.columns
        create_temporary(self.reader, _STORED, columns)
        if source is self.reader:
            source.execute(trusted(f"INSERT INTO {_STORED.sql} SELECT * FROM {name.sql}"))
        else:
            copy_rows(source, name, self.reader, _STORED, columns)


def _verify_alone(runtime: Runtime, name: QualifiedName) -> VerifyReport:
    with ExitStack() as copies:
        later = _Later(runtime, copies)
        report = _refresh_and_compare(runtime, name, later)
        return report or later.report()


def _refresh_and_compare(
    runtime: Runtime, name: QualifiedName, later: _Later
) -> VerifyReport | None:
    """Refresh and compare; None where that has to wait for the commit."""
    reports: list[VerifyReport] = []
    left: list[Committed] = []  # whose deliveries follow the commit
    with claimed(runtime, name, InitiatedBy.MANUAL) as (stream_table, lease):
        refresh = Refresh.begin(
            runtime, stream_table, lease, InitiatedBy.MANUAL, hold_snapshot=True
        )
        kept = ExitStack()

        def compare(snapshot: Snapshot, committed: Sequence[Committed]) -> None:
            [one] = committed
            if snapshot.writes:  # PostgreSQL computes: the lease is locked until the commit
                later.look(snapshot, committed)
                left.append(one)
                return
            kept.close()  # of an attempt before this one
            kept.enter_context(keep_lease(runtime, lease))
            with translated_errors():
                answer = _answer_at(snapshot.connection, one)
                comparison = _Comparison(snapshot.connection, one.prepared, answer)
                comparison.hold_sources()
                with runtime.connection() as current:
                    comparison.store(current)
                deliver_rest(one)
                kept.close()
                with runtime.connection() as connection:
                    release_lease(connection, stream_table.id, lease.token)
                reports.append(_compare(comparison))

        with kept, recorded(refresh):
            run_refresh(refresh, after=compare, deliver=False)
            for one in left[-1:]:
                deliver_rest(one)
    return reports[0] if reports else None


def _verify_as_it_is(runtime: Runtime, name: QualifiedName) -> VerifyReport:
    """Compare the contents that writers maintain, under one snapshot.

    A refresh would compute them anew first, and find nothing to report.
    """
    with claimed(runtime, name, InitiatedBy.MANUAL) as (stream_table, lease):
        refresh = Refresh.begin(runtime, stream_table, lease, InitiatedBy.MANUAL)
        bounds = Bounds.of(runtime.settings)
        with runtime.connection() as connection:
            compiled = compile_stream_table(connection, stream_table, bounds)
        with keep_lease(runtime, lease), open_snapshot(runtime) as snapshot, translated_errors():
            query = compiled.binding.query
            comparison = _Comparison(snapshot.connection, Prepared(refresh, compiled), query.sql)
            comparison.store(snapshot.connection)
            return _compare(comparison)


def _verify_together(runtime: Runtime, names: Sequence[QualifiedName]) -> VerifyReport:
    """Verify the last of some stream tables that are refreshed together.

    They are committed and their leases released before the comparison, in a transaction that has
    copies of them. Two kinds of queries can be answered only in the transaction of the group, which
    blocks its members meanwhile: a query that depends on the time, and one that PostgreSQL rejects
    with copies in it, for example because it calls a function of a member's rows, or reads a member
    with the privileges of a view's owner.
    """
    with ExitStack() as kept:
        later = _Later(runtime, kept)
        refresh_together(runtime, names, initiated_by=InitiatedBy.MANUAL, after=later.look)
        return later.report()


@dataclass(slots=True)
class _Later:
    """Compares after the commit of the transaction that wrote the contents, where that is possible.

    What it needs is copied before the commit, and kept in ``kept``.
    """

    runtime: Runtime
    kept: ExitStack
    _report: VerifyReport | None = None
    _prepared: _Comparison | None = None

    def look(self, snapshot: Snapshot, committed: Sequence[Committed]) -> None:
        """Prepare the comparison, or make it if it cannot wait (an ``AfterRefresh``)."""
        verified = committed[-1].prepared
        written = _written(self.runtime, snapshot, verified)
        with translated_errors(), written as source, ExitStack() as opened:
            compiled = verified.compiled
            # A function of the query reads the members themselves, and not their copies.
            members = {one.prepared.stream_table.relid for one in committed[:-1]}
            apart = members.isdisjoint(compiled.binding.watched)
            if apart and (compiled.follows_time or not compiled.binding.time_dependent):
                reader = opened.enter_context(imported(self.runtime, snapshot))
                self._prepared = _prepare_apart(reader, snapshot, source, committed)
                if self._prepared is not None:
                    self.kept.enter_context(opened.pop_all())
                    return
                opened.close()
            # The writer commits, and the views of the answer must not stay in its session.
            with snapshot.connection.transaction(force_rollback=True):
                answer = _answer_at(snapshot.connection, committed[-1])
                within = _Comparison(snapshot.connection, verified, answer)
                within.store(source)
                self._report = _compare(within)

    def report(self) -> VerifyReport:
        """Return the comparison; the refresh is committed."""
        if self._prepared is None:
            if self._report is None:
                raise InternalError("a refresh ended before its contents were compared")
            return self._report
        with recorded(self._prepared.verified.refresh), translated_errors():
            return _compare(self._prepared)


def _answer_at(reader: Connection, committed: Committed) -> str:
    """Return the query, with the time of the contents in the place of the current time."""
    query = committed.prepared.compiled.binding.query
    return write_over_copies(reader, query, (), committed.time) or query.sql


@contextmanager
def _written(runtime: Runtime, snapshot: Snapshot, verified: Prepared) -> Iterator[Connection]:
    """Return a transaction that sees the new contents, and block further writes meanwhile."""
    if snapshot.writes:
        yield snapshot.connection
    else:
        with keep_lease(runtime, verified.refresh.lease), runtime.connection() as current:
            yield current


def _prepare_apart(
    reader: Connection, snapshot: Snapshot, source: Connection, committed: Sequence[Committed]
) -> _Comparison | None:
    """Copy the inputs of a comparison into a lasting transaction; None if that is impossible."""
    verified = committed[-1].prepared
    number = verified.stream_table.circle
    circle = [
        one.prepared
        for one in committed
        if number is not None and one.prepared.stream_table.circle == number
    ]
    copies = list_copies(committed, circle or [verified]) if snapshot.writes else []
    for one in copies:
        one.create(reader)
    query = verified.compiled.binding.query
    moment = committed[-1].time
    answer = least_rows(verified) if circle else write_over_copies(reader, query, copies, moment)
    if answer is None:
        return None
    indexes = [index for one in copies for index in one.list_indexes(source)]
    comparison = _Comparison(reader, verified, answer, circle, copies, indexes)
    comparison.hold_sources()
    comparison.store(source)
    for one in copies:
        one.fill(source, reader)
    return comparison


def _compare(comparison: _Comparison) -> VerifyReport:
    reader, verified = comparison.reader, comparison.verified
    for statement in comparison.indexes:
        reader.execute(trusted(statement))
    for one in comparison.copies:
        reader.execute(trusted(f"ANALYZE {one.table.sql}"))
    if comparison.circle:
        # The query of a member alone would accept any fixpoint.
        find_least(reader, comparison.circle, {one.relid: one.rows for one in comparison.copies})
    types = verified.compiled.columns
    columns = ", ".join(comparable(quote_identifier(one.name), one.type) for one in types)
    stored = f"SELECT {columns} FROM {_STORED.sql}"
    answer = f"SELECT {columns} FROM ({comparison.answer}) AS answer"
    missing = _difference(reader, answer, stored)
    extra = _difference(reader, stored, answer)
    missing, extra = _forgive_floats(missing, extra, types)
    [(rows,)] = reader.execute(trusted(f"SELECT count(*) FROM {_STORED.sql}")).fetchall()
    return VerifyReport(
        str(verified.stream_table.name),
        not missing and not extra,
        rows,
        missing.total(),
        extra.total(),
        _sample(missing),
        _sample(extra),
    )


def _difference(reader: Connection, one: str, other: str) -> _Rows:
    rows = reader.execute(trusted(f"({one}) EXCEPT ALL ({other})"))
    return Counter(tuple(None if v is None else str(v) for v in row) for row in rows)


def _forgive_floats(missing: _Rows, extra: _Rows, columns: Sequence[Column]) -> tuple[_Rows, _Rows]:
    """Pair rows that differ only in the last digits of floating-point columns."""
    floats = {i for i, column in enumerate(columns) if column.type.base in _FLOATS}
    if not floats or missing.total() > _MAX_TOLERATED:
        return missing, extra
    left_missing, left_extra = Counter(missing), Counter(extra)
    by_rest: dict[tuple[str | None, ...], list[tuple[str | None, ...]]] = {}
    for row in extra.elements():
        by_rest.setdefault(_without(row, floats), []).append(row)
    for row in missing.elements():
        candidates = by_rest.get(_without(row, floats), [])
        match = next((one for one in candidates if _close(row, one, floats)), None)
        if match is not None:
            candidates.remove(match)
            left_missing[row] -= 1
            left_extra[match] -= 1
    return +left_missing, +left_extra


def _without(row: tuple[str | None, ...], dropped: set[int]) -> tuple[str | None, ...]:
    return tuple(value for i, value in enumerate(row) if i not in dropped)


def _close(one: tuple[str | None, ...], other: tuple[str | None, ...], floats: set[int]) -> bool:
    for i in floats:
        left, right = one[i], other[i]
        if left is None or right is None:
            if left is not right:
                return False
        elif left != right and not math.isclose(
            float(left), float(right), rel_tol=_RELATIVE_TOLERANCE, abs_tol=1e-12
        ):
            return False
    return True


def _sample(rows: _Rows) -> tuple[tuple[str, ...], ...]:
    chosen = list(rows.elements())[:_SAMPLE]
    return tuple(tuple("NULL" if value is None else value for value in row) for row in chosen)
