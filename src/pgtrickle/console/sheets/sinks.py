"""What leaves and enters: copies in the lake, outboxes, and the pipelines of relays."""

from __future__ import annotations

from collections.abc import Iterator

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.console.figures import age, amount, between, size
from pgtrickle.console.sheet import Cell, Column, Line, Sheet, Tone, cell
from pgtrickle.console.view import View
from pgtrickle.model.lake.sink import DeliveryStatus, SinkStatus
from pgtrickle.model.streams.inbound import InboundStatus
from pgtrickle.model.streams.outbox import Outbox
from pgtrickle.model.streams.relay import RelayStatus

COLUMNS = (
    Column("stream table or inbox", 20, grows=True),
    Column("to or from", 20),
    Column("state", 16),
    Column("last", 6, right=True),
    Column("behind", 8, right=True),
    Column("rows", 8, rank=1, right=True),
    Column("written", 9, rank=3, right=True),
    Column("snapshot", 8, rank=4, right=True),
    Column("dead", 6, rank=2, right=True),
    Column("error and what to do", 20, rank=1),
)
_DELIVERIES = {
    DeliveryStatus.DELIVERED: ("● delivered", Tone.GOOD),
    DeliveryStatus.WRITING: ("» writing", Tone.STRONG),
    DeliveryStatus.PENDING: ("○ pending", Tone.DIM),
    DeliveryStatus.FAILED_RETRYABLE: ("▲ tried again", Tone.WARNING),
    DeliveryStatus.FAILED_PERMANENT: ("■ given up", Tone.BAD),
}
_SIGNS = {
    Tone.GOOD: ("●", {"streaming", "receiving"}),
    Tone.STRONG: ("»", {"snapshot", "starting"}),
    Tone.DIM: ("○", {"new"}),
    Tone.WARNING: ("▲", {"retrying", "waiting", "full", "paused"}),
}
_EMPTY = "nothing leaves or enters: pgtrickle alter NAME --sink ducklake, or see docs/relay.md"


def draw(view: View) -> Sheet:
    """Draw one line for each copy in the lake, outbox and pipeline, and how far each is."""
    return Sheet(COLUMNS, tuple(_lines(view.picture)), _EMPTY)


def _lines(picture: Picture) -> Iterator[Line]:
    now = picture.moment.taken_at
    for copy in picture.sinks or ():
        yield _copy(copy, between(copy.last_delivered_at, now))
    for outbox in picture.outboxes or ():
        yield _outbox(outbox, between(outbox.newest_at, now))
    for relay in picture.relays or ():
        yield _relay(relay, between(relay.sent_at, now))
    for inbound in picture.inbound or ():
        yield _inbound(inbound, between(inbound.received_at, now))


def _copy(one: SinkStatus, since: float | None) -> Line:
    return _line(
        one.stream_table,
        cell(f"lake {one.lake_table}"),
        cell(*_DELIVERIES[one.status]),
        since,
        Cell(""),
        _count(one.rows_written),
        cell(size(one.bytes_written), order=one.bytes_written),
        cell("-" if one.snapshot_id is None else one.snapshot_id),
        None,
        _told(one.last_error, one.remedy),
    )


def _outbox(one: Outbox, since: float | None) -> Line:
    groups = f"outbox, {one.consumer_groups} readers"
    state = ("● records", Tone.GOOD) if one.enabled else ("‖ closed", Tone.WARNING)
    behind = None if one.slowest_offset is None else max(one.last_id - one.slowest_offset, 0)
    kept = one.blocked_by and f"keeps entries for {one.blocked_by}, beyond its retention"
    return _line(
        one.stream_table,
        cell(groups),
        cell(*state),
        since,
        _count(behind),
        _count(one.entries),
        Cell(""),
        Cell(""),
        None,
        _told(kept or None),
    )


def _relay(one: RelayStatus, since: float | None) -> Line:
    return _line(
        one.stream_table or "",
        cell(f"{one.sink} {one.pipeline}"),
        _state(one.state),
        since,
        _count(one.lag_entries),
        _count(one.messages),
        Cell(""),
        Cell(""),
        one.dead_letters,
        _told(one.error, one.hint),
    )


def _inbound(one: InboundStatus, since: float | None) -> Line:
    line = _line(
        one.inbox or "",
        cell(f"{one.origin} {one.pipeline}"),
        _state(one.state),
        since,
        _count(one.lag),
        _count(one.messages),
        Cell(""),
        Cell(""),
        one.dead_letters,
        _told(one.error, one.hint),
    )
    return Line(line.cells)  # an inbox is no stream table: no action is about it


def _line(
    name: str,
    other: Cell,
    state: Cell,
    since: float | None,
    behind: Cell,
    rows: Cell,
    written: Cell,
    snapshot: Cell,
    dead: int | None,
    trouble: Cell,
) -> Line:
    last = cell(age(since), order=since)
    lost = cell(dead or "", Tone.BAD if dead else Tone.PLAIN, dead)
    cells = (cell(name), other, state, last, behind, rows, written, snapshot, lost, trouble)
    return Line(cells, name)


def _count(value: int | None) -> Cell:
    return cell(amount(value), order=value)


def _state(word: str) -> Cell:
    shown = word.replace("_", " ")
    for tone, (sign, known) in _SIGNS.items():
        if word in known:
            return cell(f"{sign} {shown}", tone)
    return cell(f"■ {shown}", Tone.BAD)


def _told(*parts: str | None) -> Cell:
    text = " ".join(filter(None, parts))
    return cell(text, Tone.WARNING if text else Tone.PLAIN)
