"""``verify_stream_table``: compare a stream table with PostgreSQL's own answer.

The comparison runs at one moment: under the lease the table is refreshed to a snapshot, and under
that same snapshot PostgreSQL answers the defining query, while writers go on.  Floating-point
columns may differ in their last digits, because a sum depends on the order of its terms.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from psycopg import Connection

from pgtrickle.catalog.circles import list_members
from pgtrickle.catalog.graph import list_companions
from pgtrickle.catalog.leases import release_lease
from pgtrickle.catalog.stream_tables import get_stream_table
from pgtrickle.model.names import QualifiedName, quote_identifier
from pgtrickle.model.report import VerifyReport
from pgtrickle.model.sql_type import Column
from pgtrickle.model.stream_table import InitiatedBy
from pgtrickle.service.circle import find_least, least_rows
from pgtrickle.service.claim import claimed
from pgtrickle.service.compile import Compiled
from pgtrickle.service.lease_keeper import keep_lease
from pgtrickle.service.refresh import Refresh
from pgtrickle.service.refresh_together import refresh_together
from pgtrickle.service.runtime import Runtime, translated_errors
from pgtrickle.service.snapshot import Snapshot
from pgtrickle.storage.definitions import column_definitions
from pgtrickle.storage.identity import comparable

_SAMPLE = 10
_RELATIVE_TOLERANCE = 1e-9
_MAX_TOLERATED = 100_000  # rows that are paired by hand; more than that differ for sure
_STORED = '"pgtrickle__stored"'
_FLOATS = frozenset({"float4", "float8"})

_Rows = Counter[tuple[str | None, ...]]


def verify_stream_table(runtime: Runtime, name: QualifiedName) -> VerifyReport:
    """Refresh under the lease and compare at the new frontier.

    What is stored is copied under the lease, and compared without it: others go on refreshing.
    """
    reports: list[VerifyReport] = []

    def compare(snapshot: Snapshot, compiled: Compiled) -> None:
        with translated_errors():
            _store(runtime, snapshot, name, compiled)
            reports.append(_compare(runtime, snapshot, name, compiled))

    with runtime.connection() as connection:
        names = list_companions(connection, name)
        circle = list_members(connection, name)
    if len(names) > 1 or circle:
        refresh_together(runtime, names, initiated_by=InitiatedBy.MANUAL, after=compare)
        return reports[0]
    with claimed(runtime, name, InitiatedBy.MANUAL) as (stream_table, lease):
        refresh = Refresh(runtime, stream_table, lease, InitiatedBy.MANUAL, hold_snapshot=True)
        kept = ExitStack()

        def compare_alone(snapshot: Snapshot, compiled: Compiled) -> None:
            with translated_errors():
                _store(runtime, snapshot, name, compiled)
                if refresh.left is None:  # else something is still to be delivered
                    kept.close()
                    with runtime.connection() as connection:
                        release_lease(connection, stream_table.id, lease.token)
                reports.append(_compare(runtime, snapshot, name, compiled))

        with kept, refresh.recorded():
            kept.enter_context(keep_lease(runtime, lease))
            refresh.run(after=compare_alone)
    return reports[0]


def _store(runtime: Runtime, snapshot: Snapshot, name: QualifiedName, compiled: Compiled) -> None:
    """Copy what is stored into the snapshot's transaction."""
    reader = snapshot.connection
    _create_stored(reader, compiled.columns)
    if snapshot.writes:
        reader.execute(f"INSERT INTO {_STORED} SELECT * FROM {name.sql}".encode())
    else:
        _copy_stored(runtime, reader, name)


def _compare(
    runtime: Runtime, snapshot: Snapshot, name: QualifiedName, compiled: Compiled
) -> VerifyReport:
    reader = snapshot.connection
    columns = ", ".join(
        comparable(quote_identifier(column.name), column.type) for column in compiled.columns
    )
    stored = f"SELECT {columns} FROM {_STORED}"
    query = _least(runtime, reader, name, compiled) or compiled.binding.query.sql
    answer = f"SELECT {columns} FROM ({query}) AS answer"
    missing = _difference(reader, answer, stored)
    extra = _difference(reader, stored, answer)
    missing, extra = _forgive_floats(missing, extra, compiled.columns)
    [(rows,)] = reader.execute(f"SELECT count(*) FROM {_STORED}".encode()).fetchall()
    return VerifyReport(
        str(name),
        not missing and not extra,
        rows,
        missing.total(),
        extra.total(),
        _sample(missing),
        _sample(extra),
    )


def _least(
    runtime: Runtime, reader: Connection, name: QualifiedName, compiled: Compiled
) -> str | None:
    """Return what a member of a circle must hold: its query alone would take any fixpoint."""
    circle = list_members(reader, name)
    if not circle:
        return None
    find_least(runtime, reader, circle)
    return least_rows(get_stream_table(reader, name), compiled)


def _create_stored(reader: Connection, columns: Sequence[Column]) -> None:
    listed = column_definitions(columns)
    reader.execute(f"CREATE TEMPORARY TABLE {_STORED} ({listed}) ON COMMIT DROP".encode())


def _copy_stored(runtime: Runtime, reader: Connection, name: QualifiedName) -> None:
    """Bring the table's committed rows into the snapshot's transaction, which is older."""
    out = f"COPY (SELECT * FROM {name.sql}) TO STDOUT (FORMAT binary)".encode()
    into = f"COPY {_STORED} FROM STDIN (FORMAT binary)".encode()
    with (
        runtime.connection() as current,
        current.cursor().copy(out) as source,
        reader.cursor().copy(into) as target,
    ):
        for chunk in source:
            target.write(chunk)


def _difference(reader: Connection, one: str, other: str) -> _Rows:
    rows = reader.execute(f"({one}) EXCEPT ALL ({other})".encode())
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
