"""A closer look at one stream table: its changes as they come, and what two moments differ in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import AccessError, OutboxMissingError, SettingError
from pgtrickle.model.lake.past_rows import PastRows
from pgtrickle.model.text.json_values import json_value
from pgtrickle.service.sinks.ducklake.show_as_of import MOST_ROWS

_ENTRIES, _CHANGES = 20, 200  # that are shown at once
_DIFFERENCES = 200


@dataclass(frozen=True, slots=True)
class Tail:
    """The latest changes of a stream table, the newest last."""

    rows: bool  # each change of each row, of its outbox; or else what each refresh did
    why: str  # no rows are shown
    last: int  # the number to go on after
    changes: tuple[Mapping[str, Any], ...]


def tail_changes(trickle: Trickle, name: str, after: int | None) -> Tail:
    """Return what has changed after an entry or a refresh; at first, the latest.

    The changes of rows come from the outbox, to whoever may read the stream table.  Without either,
    the history of refreshes says how many rows changed.
    """
    try:
        position = trickle.outbox.outbox_position(name)
    except (OutboxMissingError, AccessError) as error:
        return _refreshes(trickle, name, after, f"{error}. {error.hint}")
    first = max(position.last_id - _ENTRIES + 1, position.first_id, (after or 0) + 1)
    if first > position.last_id:
        return Tail(rows=True, why="", last=position.last_id, changes=())
    found = trickle.outbox.outbox_rows(name, first, position.last_id, max_rows=_CHANGES)
    changes = [
        {"number": one.outbox_id, "op": one.op, "before": one.before, "after": one.after}
        for one in found
    ]
    more = f"only the first {_CHANGES} changes are shown" if len(found) == _CHANGES else ""
    return Tail(rows=True, why=more, last=position.last_id, changes=tuple(changes))


def _refreshes(trickle: Trickle, name: str, after: int | None, why: str) -> Tail:
    found = [
        one
        for one in reversed(trickle.refresh_history(name, limit=_ENTRIES))
        if one.end_time is not None and one.id > (after or 0)
    ]
    changes = [
        {
            "number": one.id,
            "op": one.action.value if one.action else one.status.value,
            "at": str(one.end_time),
            "inserted": one.rows_inserted,
            "deleted": one.rows_deleted,
        }
        for one in found
    ]
    last = max((one.id for one in found), default=after or 0)
    return Tail(rows=False, why=why, last=last, changes=tuple(changes))


@dataclass(frozen=True, slots=True)
class Difference:
    """The rows that one of two snapshots of the lake has and the other lacks."""

    before: str
    after: str
    columns: tuple[str, ...]
    added: int
    removed: int
    rows: tuple[
        tuple[str, int, tuple[str | None, ...]], ...
    ]  # added or removed, how often, the row


def compare_moments(trickle: Trickle, name: str, before: str, after: str) -> Difference:
    """Compare the copy of a stream table in the lake at two snapshots or moments."""
    one, other = (
        trickle.lake.show_as_of(name, moment, max_rows=MOST_ROWS) for moment in (before, after)
    )
    for past in (one, other):
        if not past.complete:
            raise SettingError(
                f"snapshot {past.snapshot_id} has more than {MOST_ROWS:,} rows",
                hint="Compare them in Spark or DuckDB: see docs/lake.md.",
            )
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    counts = _counted(other, columns)
    counts.subtract(_counted(one, columns))
    rows = [
        ("added" if count > 0 else "removed", abs(count), row)
        for row, count in counts.items()
        if count
    ]
    rows.sort(key=lambda found: (str(found[2]), found[0]))
    return Difference(
        _written(one),
        _written(other),
        columns,
        sum(count for change, count, _ in rows if change == "added"),
        sum(count for change, count, _ in rows if change == "removed"),
        tuple(rows[:_DIFFERENCES]),
    )


def _counted(past: PastRows, columns: Sequence[str]) -> Counter[tuple[str | None, ...]]:
    """Count equal rows, by what is written of them."""
    return Counter(tuple(_text(row.get(column)) for column in columns) for row in past.rows)


def _text(value: Any) -> str | None:
    return None if value is None else str(json_value(value))


def _written(past: PastRows) -> str:
    return f"snapshot {past.snapshot_id} of {past.snapshot_time}"


def edge_figures(trickle: Trickle, name: str) -> Mapping[str, Any]:
    """Return what flowed along the edges of a plan: of the last rehearsal, or the last refresh.

    Only a rehearsal has the figures of each stage, and the time of its reads.
    """
    profiles = trickle.insight.list_profiles(name)
    if profiles and profiles[0].figures.get("stages"):
        latest = profiles[0]
        stages = {
            one["name"]: {
                "rows": one["rows_out"],
                "bytes": one["bytes_out"],
                "ms": sum(one["timings_ms"].values()),
                "read_ms": one["timings_ms"].get("read"),
                "reads": {read["source"]: [read["rows"], read["bytes"]] for read in one["reads"]},
            }
            for one in latest.figures["stages"]
        }
        return {"of": f"the rehearsal of {latest.taken_at:%Y-%m-%d %H:%M:%S}", "stages": stages}
    last = next((one for one in trickle.refresh_history(name, limit=20) if one.reads), None)
    if last is None:
        return {"of": "", "reads": {}}
    reads: dict[str, list[int]] = {}
    for read in last.reads:
        rows, size = reads.get(read.source, [0, 0])
        reads[read.source] = [rows + max(read.rows, 0), size + max(read.bytes, 0)]
    return {
        "of": f"refresh {last.id}",
        "reads": reads,
        "rows": last.rows_inserted + last.rows_deleted,
        "ms": last.actual_ms,
        "read_ms": last.timings_ms.get("read"),
    }
