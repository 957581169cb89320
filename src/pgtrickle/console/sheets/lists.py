"""The panels that are plain lists: snapshots, requests, settings."""

from __future__ import annotations

from pgtrickle.console.figures import age, amount, between, size
from pgtrickle.console.sheet import Column, Line, Sheet, Tone, cell
from pgtrickle.console.view import View

_SNAPSHOTS = (
    Column("snapshot", 28, grows=True),
    Column("of", 20),
    Column("taken", 6, right=True),
    Column("rows", 8, right=True),
    Column("size", 9, right=True),
    Column("after a restore", 20, rank=1),
)


def draw_snapshots(view: View) -> Sheet:
    """Draw the snapshots of stream tables."""
    now = view.picture.moment.taken_at
    lines = (
        Line(
            (
                cell(one.lake_table or one.table),
                cell(one.stream_table),
                cell(age(between(one.created_at, now)), order=between(one.created_at, now)),
                cell(amount(one.row_count), order=one.row_count),
                cell(size(one.size_bytes), order=one.size_bytes),
                cell(one.gap or "goes on", Tone.WARNING if one.gap else Tone.GOOD),
            ),
            one.stream_table,
        )
        for one in view.picture.snapshots or ()
    )
    return Sheet(_SNAPSHOTS, tuple(lines), "no snapshots: pgtrickle snapshot create NAME")


_REQUESTS = (
    Column("request", 7, right=True),
    Column("what", 20),
    Column("stream table", 20, grows=True),
    Column("who", 12),
    Column("state", 11),
    Column("asked", 6, right=True),
    Column("took", 6, rank=1, right=True),
    Column("error", 6, rank=1),
)
_STATES = {
    "QUEUED": ("○ waits", Tone.WARNING),
    "RUNNING": ("» runs", Tone.STRONG),
    "COMPLETED": ("● done", Tone.GOOD),
    "FAILED": ("✖ failed", Tone.BAD),
    "CANCELLED": ("■ cancelled", Tone.DIM),
}


def draw_requests(view: View) -> Sheet:
    """Draw what sessions ask of the daemon, what is open first."""
    now = view.picture.moment.taken_at
    lines = (
        Line(
            (
                cell(one.id, order=one.id),
                cell(one.verb),
                cell(one.stream_table),
                cell(one.caller),
                cell(*_STATES.get(one.status, (one.status, Tone.PLAIN))),
                cell(age(between(one.requested_at, now)), order=between(one.requested_at, now)),
                cell(
                    ""
                    if one.started_at is None
                    else age(between(one.started_at, one.ended_at or now))
                ),
                cell(one.error_code, Tone.BAD),
            ),
            str(one.id),
        )
        for one in view.picture.requests or ()
    )
    return Sheet(_REQUESTS, tuple(lines), "nobody has asked for anything today")


_SETTINGS = (
    Column("setting", 32),
    Column("value", 12),
    Column("from", 7),
    Column("default", 12, rank=1),
    Column("meaning", 30, grows=True),
)


def draw_settings(view: View) -> Sheet:
    """Draw the settings of the database, as new processes find them."""
    lines = (
        Line(
            (
                cell(one.name),
                cell(
                    f"{one.value}{one.unit and ' ' + one.unit}",
                    Tone.PLAIN if one.source == "default" else Tone.STRONG,
                ),
                cell(one.source),
                cell(one.default),
                cell(one.doc, Tone.DIM),
            ),
            one.name,
        )
        for one in view.picture.settings or ()
    )
    return Sheet(_SETTINGS, tuple(lines))
