"""Windows: the changes of a source that the reader sees and a frontier does not.

The frontier bounds a window below.  Above, it is bounded by MVCC: the reader's own snapshot shows
a change when its transaction has committed, and that snapshot becomes the next frontier.  So a
change falls into exactly one window, however long its transaction ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import Connection
from psycopg.rows import TupleRow

from pgtrickle.capture.buffers import buffer_of
from pgtrickle.errors import SourceNotFoundError
from pgtrickle.model.frontier import Frontier, PgSnapshot
from pgtrickle.model.text.names import quote_identifier
from pgtrickle.model.text.trusted import trusted


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """How much a source has changed since a frontier."""

    relid: int
    rows: int  # weighted rows, before consolidation; an UPDATE counts twice
    truncated: bool
    # Changed rows: inserted or deleted, whichever are more, so that an UPDATE counts once.
    touched: int = 0

    @property
    def changed(self) -> bool:
        """Tell whether the source changed at all."""
        return self.rows > 0 or self.truncated


def window_predicate(frontier: PgSnapshot, upper: PgSnapshot | None = None) -> str:
    """Return the condition on ``__xid`` of a buffer that holds for changes after ``frontier``.

    A reader whose own snapshot is later than the new frontier passes the new frontier as ``upper``.

    It is ``NOT pg_visible_in_snapshot(__xid, frontier)`` written out, so that an index answers it
    even when an old transaction keeps the snapshot's xmin low.

    >>> window_predicate(PgSnapshot.parse("100:105:101,103"))
    "(__xid >= '105'::pg_catalog.xid8 OR __xid IN ('101'::pg_catalog.xid8, '103'::pg_catalog.xid8))"
    >>> window_predicate(PgSnapshot.parse("100:100:"))
    "(__xid >= '100'::pg_catalog.xid8)"
    """
    if upper is not None:
        return f"({window_predicate(frontier)} AND {consumed_predicate([upper])})"
    later = f"__xid >= {_xid(frontier.xmax)}"
    if not frontier.in_progress:
        return f"({later})"
    return f"({later} OR __xid IN ({_xids(frontier.in_progress)}))"


def consumed_predicate(frontiers: Sequence[PgSnapshot]) -> str:
    """Return the condition on ``__xid`` that holds for changes every one of ``frontiers`` sees.

    >>> consumed_predicate([PgSnapshot.parse("100:105:101"), PgSnapshot.parse("90:103:90")])
    "(__xid < '103'::pg_catalog.xid8 AND __xid NOT IN ('90'::pg_catalog.xid8, '101'::pg_catalog.xid8))"
    """  # noqa: E501 - the output is one line
    in_progress = frozenset[int]().union(*(frontier.in_progress for frontier in frontiers))
    earlier = f"__xid < {_xid(min(frontier.xmax for frontier in frontiers))}"
    if not in_progress:
        return f"({earlier})"
    return f"({earlier} AND __xid NOT IN ({_xids(in_progress)}))"


def _xids(xids: frozenset[int]) -> str:
    return ", ".join(map(_xid, sorted(xids)))


def _xid(xid: int) -> str:
    return f"'{xid:d}'::pg_catalog.xid8"


def changed_sources(
    connection: Connection[TupleRow],
    windows: Sequence[tuple[int, PgSnapshot]],
    upper: PgSnapshot | None = None,
) -> list[SourceChanges]:
    """Return the changes since each (source, frontier), in the same order, with one query."""
    distinct = list(dict.fromkeys(windows))
    if not distinct:
        return []
    statement = " UNION ALL ".join(
        f"""
        SELECT {position} AS position,
               pg_catalog.count(*) FILTER (WHERE __weight <> 0),
               COALESCE(pg_catalog.bool_or(__weight = 0), false),
               GREATEST(pg_catalog.count(*) FILTER (WHERE __weight > 0),
                        pg_catalog.count(*) FILTER (WHERE __weight < 0))
          FROM {buffer_of(relid).sql}
         WHERE {window_predicate(frontier, upper)}
        """
        for position, (relid, frontier) in enumerate(distinct)
    )
    try:
        rows = connection.execute(trusted(statement)).fetchall()
    except psycopg.errors.UndefinedTable as error:
        raise SourceNotFoundError(
            "the change buffer of a source does not exist",
            detail=str(error),
            hint="Drop the stream table with: pgtrickle drop, and create it again.",
        ) from error
    found = {
        distinct[position]: SourceChanges(distinct[position][0], count, truncated, touched)
        for position, count, truncated, touched in rows
    }
    return [found[window] for window in windows]


def only_inserted(
    connection: Connection[TupleRow],
    windows: Sequence[tuple[int, PgSnapshot]],
    *,
    none: bool = False,
) -> bool:
    """Tell whether the windows hold only inserted rows; with ``none``, no rows at all."""
    kinds = "" if none else " AND __weight <= 0"
    others = " OR ".join(
        f"EXISTS (SELECT FROM {buffer_of(relid).sql} WHERE {window_predicate(frontier)}{kinds})"
        for relid, frontier in dict.fromkeys(windows)
    )
    [(found,)] = connection.execute(trusted(f"SELECT {others or 'false'}")).fetchall()
    return not found


def leaves_a_change(
    connection: Connection[TupleRow],
    relid: int,
    columns: Sequence[str],
    frontier: PgSnapshot,
    upper: PgSnapshot | None = None,
) -> bool:
    """Tell whether the changes since a frontier, of these columns, do not all cancel out."""
    listed = [f"{quote_identifier(name)}::pg_catalog.text" for name in columns]
    statement = f"""
        SELECT EXISTS (
            SELECT FROM {buffer_of(relid).sql}
             WHERE {window_predicate(frontier, upper)} AND __weight <> 0
             GROUP BY {", ".join(listed) or "()"}
            HAVING pg_catalog.sum(__weight) <> 0)
    """
    [(found,)] = connection.execute(trusted(statement)).fetchall()
    return bool(found)


_GET_FRONTIER = """
    SELECT (SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()),
           (SELECT oid FROM pg_catalog.pg_database
             WHERE datname = pg_catalog.current_database()),
           pg_catalog.pg_current_snapshot()::pg_catalog.text
"""


def get_frontier(connection: Connection[TupleRow]) -> Frontier:
    """Return the snapshot of the current transaction, as a frontier.

    Under REPEATABLE READ every later read of the transaction belongs to it.
    """
    [(system, database, snapshot)] = connection.execute(_GET_FRONTIER).fetchall()
    return Frontier(system, database, PgSnapshot.parse(snapshot))


_DELETE_FUTURE = """
    DELETE FROM {buffer}
     WHERE __xid >= pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())
"""


def delete_future(connection: Connection[TupleRow], relids: Sequence[int]) -> int:
    """Delete changes with transaction ids of the future; return how many.

    The server's ids were set back after they were written.  When the ids are used again, they are
    those of other transactions, and until then the changes would be in every window.
    """
    return sum(
        connection.execute(trusted(_DELETE_FUTURE.format(buffer=buffer_of(relid).sql))).rowcount
        for relid in relids
    )
