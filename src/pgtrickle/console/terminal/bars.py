"""The lines above and below the sheet: where we are, the panels, the keys."""

from __future__ import annotations

from rich.text import Text

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.console.figures import clock
from pgtrickle.console.layout import fit
from pgtrickle.console.panels import PANELS, Panel
from pgtrickle.console.sheet import Tone
from pgtrickle.console.terminal.grid import STYLES
from pgtrickle.model.text.printable import printable_line


def draw_state(picture: Picture | None, trouble: str, *, stopped: bool, width: int) -> Text:
    """Draw the first line: the database, its daemon, and the time of the picture."""
    if picture is None:
        return Text(fit(trouble or "asking the database", width), STYLES[Tone.STRONG])
    moment = picture.moment
    standby = " (standby)" if moment.standby else ""
    text = Text("pgtrickle ", STYLES[Tone.STRONG])
    text.append(f"{printable_line(moment.database)} PG {moment.server_version.split()[0]}{standby}")
    if moment.served:
        text.append("  ● daemon", STYLES[Tone.GOOD])
    else:
        text.append("  ✖ no daemon", STYLES[Tone.BAD])
    if moment.queued or moment.running:
        text.append(f"  {moment.queued} queued, {moment.running} run")
    right = Text(f"  {clock(moment.taken_at)}")
    if trouble:
        right = Text(f"  ✖ no answer since {clock(moment.taken_at)}", STYLES[Tone.BAD])
    elif stopped:
        right.append(" stopped", STYLES[Tone.WARNING])
    room = max(width - right.cell_len, 0)
    text.truncate(room, overflow="ellipsis")
    text.pad_right(room - text.cell_len)
    return text.append_text(right)


def draw_panels(chosen: Panel, width: int) -> Text:
    """Draw the second line: every panel with its key; a click opens it."""
    whole = sum(len(one.name) + 3 for one in PANELS.values()) <= width
    letters = next(
        (most for most in range(9, 1, -1) if _taken(most) <= width), 1
    )  # of each name, where there is little room
    text = Text(no_wrap=True)
    for panel in PANELS.values():
        name = panel.name if whole else panel.name[:letters]
        start = len(text)
        text.append(
            f"{panel.key}{' ' if whole else ''}{name}", "reverse" if panel is chosen else ""
        )
        text.apply_meta({"@click": f"app.open_panel('{panel.name}')"}, start, len(text))
        text.append(" ")
    return text


def _taken(letters: int) -> int:
    return sum(min(len(one.name), letters) + 2 for one in PANELS.values())


def draw_keys(position: str, order: str, words: str, said: str, width: int) -> Text:
    """Draw the last line: what was said last, or the keys, and where the cursor is."""
    left = printable_line(said) or "/filter :command ?help  Enter open  r refresh  v verify  q quit"
    right = "  ".join(filter(None, (order, words and f"/{words}", position)))
    right = f"  {printable_line(right)}"
    room = max(width - len(right), 0)
    return Text(fit(left, room) + right, STYLES[Tone.STRONG if said else Tone.DIM], no_wrap=True)
