"""Scans whose filter or computed columns depend on the current time: time is a source.

Let S(R, N) be the rows of such a scan over the table's rows R at the time N, and let R0, N0 and R1,
N1 be the rows and the time before and after. The scan is linear in R, and R0 = R1 - ΔR, so

    S(R1, N1) - S(R0, N0)  =  S(ΔR, N0)  +  S(R1, N1) - S(R1, N0)

The first term is the window, with both images of each row filtered at the *old* time. The other two
are the rows of the *present* table whose answer differs between the two times: most often a range
of a column, which an index finds. A row that was written and has moved by time as well is in both
parts, and counts once in their sum: if it was inserted, p(N0) + (p(N1) - p(N0)) = p(N1).

So the change of the scan is one relation of weighted rows as ever, and no operator above has to
know that time has passed.
"""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.algebra.nodes import Output, Scalar, Scan, SourceKind
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.sql.scalars import conjunction, conjuncts
from pgtrickle.sql.text.current_time import AFTER_MARK, BEFORE_MARK, mark_times
from pgtrickle.sql.time_ranges import TimeRange, Turn, reads_time, time_ranges


def is_moving(scan: Scan) -> bool:
    """Tell whether rows of a scan change as time passes."""
    return scan.source.kind is SourceKind.TABLE and any(map(reads_time, _scalars(scan)))


def ranges_of(scan: Scan) -> tuple[TimeRange, ...] | None:
    """Return the ranges in which the rows lie that time can move; None: any row can move."""
    found: dict[TimeRange, None] = {}
    for scalar in _scalars(scan):
        if reads_time(scalar):
            ranges = time_ranges(scalar)
            if ranges is None:
                return None
            found |= dict.fromkeys(ranges)
    return tuple(found)


def shows_time(output: Output) -> bool:
    """Tell whether a computed column may change in every row as time passes."""
    if not reads_time(output.scalar) or output.type.base == "bool":
        return False
    return time_ranges(output.scalar) is None


def moved_rows(scan: Scan) -> str:
    """Write the query that finds the rows that time alone has moved, with their weights."""
    ranges = ranges_of(scan)
    still, timed = _split(scan)
    where = [one.sql for one in still]
    if ranges is not None:
        where.append(" OR ".join(one.condition for one in ranges))
    source = f" FROM {_relation(scan)}"
    if any(reads_time(output.scalar) for output in scan.outputs):
        arms = (
            (mark, weight, [*where, *_marked(timed, mark)])
            for mark, weight in ((AFTER_MARK, "1"), (BEFORE_MARK, "-1"))
        )
        return " UNION ALL ".join(
            f"SELECT {listed(scan, mark, weight)}{source}{_where(conditions)}"
            for mark, weight, conditions in arms
        )
    after, before = (_marked(timed, mark)[0] for mark in (AFTER_MARK, BEFORE_MARK))
    where.append(f"(({after}) IS TRUE) <> (({before}) IS TRUE)")
    weight = f"CASE WHEN {after} THEN 1 ELSE -1 END"
    return f"SELECT {listed(scan, AFTER_MARK, weight)}{source}{_where(where)}"


def moved_values(scan: Scan, expression: str) -> str:
    """Write the query that finds the values of a column among those rows, and perhaps more."""
    return f"SELECT {expression} FROM ({moved_rows(scan)}) AS moved"


def listed(scan: Scan, mark: str, weight: str | None = None) -> str:
    """Write the columns of a scan as they are at a time."""
    parts = [
        f"{mark_times(output.scalar.sql, mark)} AS {quote_identifier(output.name)}"
        for output in scan.outputs
    ]
    return ", ".join([*parts, *([f"{weight} AS __weight"] if weight else [])])


def next_values(scan: Scan, *, steady: bool) -> tuple[tuple[str, str], ...] | None:
    """Return what tells when the next row moves: for each range a query and a condition.

    The query finds the least value ahead of the moment; the condition, over it as ``next.value``,
    holds as soon as the comparison has changed. In both texts, the mark of the new time means the
    time from which on is asked, and that of the old time the one that is tried. None: that cannot
    be told. ``steady`` says that local time never steps back.
    """
    ranges, (still, _) = ranges_of(scan), _split(scan)
    if ranges is None:
        return None
    found = []
    for one in ranges:
        if one.column is None or not (one.absolute or (steady and one.advances)):
            return None
        now = mark_times(one.moment, AFTER_MARK)
        ahead = ">" if one.turn is Turn.REACHED else ">="
        where = [*(condition.sql for condition in still), f"{one.expression} {ahead} {now}"]
        least = f"SELECT min({one.expression}) AS value FROM {_relation(scan)}{_where(where)}"
        then = mark_times(one.moment, BEFORE_MARK)
        reached, passed = f"({then}) >= next.value", f"({then}) > next.value"
        both = f"CASE WHEN ({now}) >= next.value THEN {passed} ELSE {reached} END"
        turned = {Turn.REACHED: reached, Turn.PASSED: passed, Turn.BOTH: both}
        found.append((least, turned[one.turn]))
    return tuple(found)


def describe_moved(scan: Scan) -> str:
    """Describe the rows that time can move, and how they are found."""
    ranges = ranges_of(scan)
    if ranges is None:
        return "every row, because the time is not compared with a value of the row"
    return " or ".join(map(str, ranges))


def _split(scan: Scan) -> tuple[list[Scalar], list[Scalar]]:
    """Split the filter into conditions without the time and with it."""
    parts = conjuncts(scan.predicate) if scan.predicate else []
    return (
        [one for one in parts if not reads_time(one)],
        [one for one in parts if reads_time(one)],
    )


def _marked(timed: list[Scalar], mark: str) -> list[str]:
    condition = conjunction(timed)
    return [] if condition is None else [f"({mark_times(condition.sql, mark)})"]


def _scalars(scan: Scan) -> Iterator[Scalar]:
    if scan.predicate is not None:
        yield scan.predicate
    for output in scan.outputs:
        yield output.scalar


def _relation(scan: Scan) -> str:
    if scan.source.relation is None:
        raise ValueError(f"the scan {scan.alias} reads no table")
    return scan.source.relation.sql


def _where(conditions: list[str]) -> str:
    return f" WHERE {' AND '.join(f'({one})' for one in conditions)}" if conditions else ""
