"""A sheet in the terminal: only the lines on the screen are drawn, however many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from pgtrickle.console.layout import fit, fitted
from pgtrickle.console.sheet import Line, Sheet, Tone

# Blue, orange and vermilion differ for every kind of colour blindness; signs say the same.
STYLES = {
    Tone.PLAIN: Style(),
    Tone.GOOD: Style(color="#56b4e9"),
    Tone.WARNING: Style(color="#e69f00", bold=True),
    Tone.BAD: Style(color="#ff7a45", bold=True),
    Tone.DIM: Style(dim=True),
    Tone.STRONG: Style(bold=True),
}
_TITLES = Style(bold=True, underline=True)
_CURSOR = Style(reverse=True)
_WHEEL = 3  # lines


class Grid(Widget, can_focus=True):
    """Shows a sheet, with a cursor that stays on its line when the sheet changes."""

    DEFAULT_CSS = "Grid { width: 1fr; height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("home", "move(-1000000)", show=False),
        Binding("end", "move(1000000)", show=False),
        Binding("enter", "choose", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """A line was opened, by Enter or a double click."""

        line: Line

    def __init__(self) -> None:
        super().__init__()
        self.sheet = Sheet((), ())
        self._fitted = fitted(self.sheet, 0)
        self.cursor = 0
        self.top = 0

    @property
    def key(self) -> str:
        """What the line under the cursor is about; empty if nothing."""
        lines = self.sheet.lines
        return lines[self.cursor].key if self.cursor < len(lines) else ""

    @property
    def visible_keys(self) -> list[str]:
        """What the lines on the screen are about."""
        return [one.key for one in self.sheet.lines[self.top : self.top + self._room]]

    @property
    def position(self) -> str:
        """Where the cursor is, for the frame."""
        count = len(self.sheet.lines)
        return f"{min(self.cursor + 1, count)}/{count}"

    def show(self, sheet: Sheet, *, fresh: bool = False) -> None:
        """Show another sheet; ``fresh`` begins at its top."""
        key, place = self.key, self.cursor
        self.sheet = sheet
        self._fitted = fitted(sheet, self.size.width)
        if fresh:
            self.cursor = self.top = 0
        elif key and not (place < len(sheet.lines) and sheet.lines[place].key == key):
            places = [number for number, one in enumerate(sheet.lines) if one.key == key]
            self.cursor = min(places, key=lambda one: abs(one - place), default=place)
        self._keep_in_sight()

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        self.cursor += lines
        self._keep_in_sight()

    def action_page(self, pages: int) -> None:
        """Move the cursor by what fits on the screen."""
        self.action_move(pages * max(self._room - 1, 1))

    def action_choose(self) -> None:
        """Open what is under the cursor."""
        if self.cursor < len(self.sheet.lines):
            self.post_message(self.Chosen(self.sheet.lines[self.cursor]))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor; the second click opens."""
        number = self.top + event.y - self._titled
        if event.y >= self._titled and number < len(self.sheet.lines):
            self.cursor = number
            self._keep_in_sight()
            if event.chain == 2:
                self.action_choose()

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        """Scroll by the wheel."""
        self.action_move(_WHEEL)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        """Scroll by the wheel."""
        self.action_move(-_WHEEL)

    def on_resize(self) -> None:
        """Keep the cursor on the screen."""
        self._fitted = fitted(self.sheet, self.size.width)
        self._keep_in_sight()

    def render_line(self, y: int) -> Strip:
        """Draw one line of the screen."""
        width = self.size.width
        if not self.sheet.lines:
            text = self.sheet.empty if y == 1 else ""
            return Strip([Segment(fit(f" {text}", width), STYLES[Tone.DIM])], width)
        if y < self._titled:
            return Strip([Segment(fit(self._fitted.title(self.sheet), width), _TITLES)], width)
        number = self.top + y - self._titled
        if number >= len(self.sheet.lines):
            return Strip.blank(width)
        strip = self._strip(self.sheet.lines[number], width)
        under = number == self.cursor and self.has_focus
        return strip.apply_style(_CURSOR) if under else strip

    def _strip(self, line: Line, width: int) -> Strip:
        if line.spans:
            [one] = line.cells
            segments = [Segment(fit(one.text, width), STYLES[one.tone])]
        else:
            texts = self._fitted.texts(self.sheet, line.cells)
            segments = [Segment(text, STYLES[one.tone]) for text, one in texts]
        return Strip(segments).adjust_cell_length(width)

    @property
    def _titled(self) -> int:
        return int(any(one.title for one in self.sheet.columns))

    @property
    def _room(self) -> int:
        return max(self.size.height - self._titled, 0)

    def _keep_in_sight(self) -> None:
        last = max(len(self.sheet.lines) - 1, 0)
        self.cursor = min(max(self.cursor, 0), last)
        self.top = min(max(self.top, self.cursor - self._room + 1, 0), self.cursor)
        self.refresh()
