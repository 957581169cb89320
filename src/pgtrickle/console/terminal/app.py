"""The console in the terminal: one sheet at a time, asked anew every second."""

from __future__ import annotations

import os
import time
from typing import ClassVar

from rich.text import Span, Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.client.trickle import Trickle
from pgtrickle.console.panels import PANELS, Panel
from pgtrickle.console.sheet import Sheet
from pgtrickle.console.terminal.acting import Acting
from pgtrickle.console.terminal.bars import draw_keys, draw_panels, draw_state
from pgtrickle.console.terminal.dialogs import Message, describe, help_text
from pgtrickle.console.terminal.grid import Grid
from pgtrickle.console.view import Explained, View
from pgtrickle.console.watching import Watch
from pgtrickle.errors import TrickleError
from pgtrickle.model.text.passwords import hide_passwords

_UNANSWERED = 3.0  # seconds after which a missing picture is said to be missing


class Console(Acting):
    """``pgtrickle top``."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    #state, #panels, #keys { height: 1; width: 1fr; }
    #words { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    #words.open { display: block; }
    .dialog { align: center middle; background: ansi_default; }
    .box { width: auto; height: auto; max-width: 90%; max-height: 90%; border: round; }
    .box { padding: 0 1; }
    .wide { width: 90%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(one.key, f"open_panel('{one.name}')", show=False) for one in PANELS.values()),
        Binding("question_mark", "help", show=False),
        Binding("s", "sort(False)", show=False),
        Binding("S", "sort(True)", show=False),
        Binding("space", "stop_or_go", show=False),
        Binding("e", "explain", show=False),
        Binding("escape", "leave_panel", show=False),
        Binding("q", "quit", show=False),
    ]

    def __init__(
        self,
        watch: Watch,
        trickle: Trickle,
        *,
        seconds: float = 1.0,
        subject: str | None = None,
        plain: bool = False,
    ) -> None:
        if plain:  # the terminal's own colours are then none
            os.environ["NO_COLOR"] = "1"
        super().__init__(trickle, PANELS["overview" if subject is None else "table"])
        self._watch = watch
        self._seconds = seconds
        self._subject = subject
        self._picture: Picture | None = None
        self._explained: Explained | None = None
        self._order: int | None = None  # the column that lines are sorted by
        self._down = False
        self._trouble = ""
        self._stopped = False
        self._written: dict[str, Text] = {}  # what each bar says
        self._asked: float | None = None  # when the picture that is awaited was asked for
        self._seen: tuple[Panel, list[int], str | None] | None = None  # what was asked for last
        self._looked = 0.0  # when it came

    def compose(self) -> ComposeResult:
        """Lay out the bars and the sheet."""
        yield Static(id="state")
        yield Static(id="panels")
        yield self._grid
        yield Input(id="words", select_on_focus=False)
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Begin to look."""
        self._grid.focus()
        self._timer = self.set_interval(self._seconds, self.look)
        self.set_interval(1.0, self.draw_bars)
        self.look()

    def look(self) -> None:
        """Ask for the next picture, unless one is awaited, none is wanted, or it is too soon."""
        if self._asked is not None or self._stopped:
            return
        seen = (self._panel, self._ids(), self._subject)
        if seen == self._seen and time.monotonic() < self._looked + self._panel.pace:
            return
        self._seen, self._asked = seen, time.monotonic()
        self._look(*seen)

    @work(thread=True)
    def _look(self, panel: Panel, ids: list[int], subject: str | None) -> None:
        worker = get_current_worker()
        try:
            found: Picture | TrickleError = self._watch.look(panel, ids, subject)
        except TrickleError as error:
            found = error
        if not worker.is_cancelled:
            self.call_from_thread(self._receive, panel, found)

    def _receive(self, panel: Panel, found: Picture | TrickleError) -> None:
        self._asked, self._looked = None, time.monotonic()
        if isinstance(found, TrickleError):
            self._seen = None
            self._trouble = hide_passwords(f"error {found.code}: {found}")
            self._said = f"{self._trouble}; trying again"
            self.draw_bars()
            return
        if self._trouble:
            self._trouble, self._said = "", "the database answers again"
        if panel is not self._panel:  # another one was opened meanwhile
            self.look()
            return
        first = self._picture is None or not self._grid.sheet.lines
        self._picture = found
        self.draw_sheet()
        if first and self._ids():  # what is on the screen is known only now
            self.look()

    def draw_sheet(self, *, fresh: bool = False) -> None:
        """Draw the panel from the last picture."""
        if self._picture is None:
            return
        sheet = self._panel.draw(self._view(self._picture)).filtered(self._words)
        if self._order is not None and self._order < len(sheet.columns):
            sheet = sheet.sorted_by(self._order, down=self._down)
        self._grid.show(sheet, fresh=fresh)
        self.draw_bars()

    def set_pace(self, seconds: float) -> None:
        """Ask the database at other intervals."""
        self._seconds = seconds
        self._timer.stop()
        self._timer = self.set_interval(seconds, self.look)

    def _view(self, picture: Picture) -> View:
        return View(
            picture,
            self._subject,
            self._explained,
            self._watch.notices,
            self._watch.deaf,
            self._watch.log() if self._panel.name == "log" else (),
            self._watch.log_path,
        )

    def _ids(self) -> list[int]:
        """Return the stream tables on the screen, of which more is wanted than of others."""
        if self._picture is None or not self._panel.of_some:
            return []
        known = {one.name: one.id for one in self._picture.tables or ()}
        return [known[key] for key in self._grid.visible_keys if key in known]

    def draw_bars(self) -> None:
        """Draw the lines above and below the sheet."""
        width = self.size.width
        waits = self._asked is not None and time.monotonic() - self._asked > _UNANSWERED
        trouble = self._trouble or ("no answer" if waits else "")
        state = draw_state(self._picture, trouble, stopped=self._stopped, width=width)
        self._write("state", state)
        self._write("panels", draw_panels(self._panel, width))
        order = ""
        if self._order is not None and self._order < len(self._grid.sheet.columns):
            order = f"by {self._grid.sheet.columns[self._order].title}{'↓' if self._down else '↑'}"
        keys = draw_keys(self._grid.position, order, self._words, self._said, width)
        self._write("keys", keys)

    def _write(self, bar: str, text: Text) -> None:
        """Write a bar anew if it says something else; its place stays, so nothing is laid out."""
        written = self._written.get(bar)
        if written is None or _drawn(text) != _drawn(written):
            self._written[bar] = text
            self.query_one(f"#{bar}", Static).update(text, layout=False)

    def on_resize(self, _: events.Resize) -> None:
        """Draw the bars for the new width."""
        self.draw_bars()

    def action_open_panel(self, name: str, subject: str | None = None) -> None:
        """Open a panel."""
        if name == "table" and self._panel.name != "table":
            self._subject = subject or self._named_under_cursor() or self._subject
        elif subject is not None:
            self._subject = subject
        self._panel, self._order, self._words, self._said = PANELS[name], None, "", ""
        self._grid.show(Sheet((), (), "asking the database"), fresh=True)
        self._stopped = False
        self.draw_bars()
        self.look()

    @on(Grid.Chosen)
    def open_table(self, chosen: Grid.Chosen) -> None:
        """Open a stream table, or show the whole of a line that leads to none."""
        if self._panel.name in {"requests", "settings", "capture", "table"}:
            self.push_screen(Message(describe(self._grid.sheet, chosen.line)))
        else:
            self.action_open_panel("table", chosen.line.key)

    def action_leave_panel(self) -> None:
        """End the filter, or go back to the overview."""
        if self._words:
            self._words = ""
            self.draw_sheet()
        elif self._panel.name != "overview":
            self.action_open_panel("overview")

    def action_sort(self, turn: bool) -> None:  # noqa: FBT001 - a binding gives it
        """Sort by the next column, or the other way round."""
        count = len(self._grid.sheet.columns)
        if turn:
            self._down = not self._down
        elif count:
            self._order = 0 if self._order is None else self._order + 1
            if self._order == count:
                self._order = None
        self.draw_sheet()

    def action_stop_or_go(self) -> None:
        """Keep the picture, or go on."""
        self._stopped = not self._stopped
        self.draw_bars()
        self.look()

    def action_help(self) -> None:
        """Show the help."""
        self.push_screen(Message(help_text()))

    def action_explain(self) -> None:
        """Ask for the plan of the stream table that is looked at."""
        if self._panel.name != "table":
            self.action_open_panel("table")
        if self._subject is not None:
            self.say(f"asking for the plan of {self._subject}")
            self._explain(self._subject)

    @work(thread=True, group="explain", exclusive=True)
    def _explain(self, name: str) -> None:
        explained = self._watch.explain(name)
        self.call_from_thread(self._show_plan, explained)

    def _show_plan(self, explained: Explained) -> None:
        self._explained = explained
        self.say(explained.refusal or "the plan is at the end of the panel")
        self.draw_sheet()


def _drawn(text: Text) -> tuple[str, str, list[Span]]:
    return text.plain, str(text.style), text.spans
