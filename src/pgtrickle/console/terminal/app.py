"""The console in the terminal: one sheet at a time, asked anew every second."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import ClassVar

from textual import events, on, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from pgtrickle.catalog.console.picture import Picture
from pgtrickle.client.trickle import Trickle
from pgtrickle.console.actions import ACTIONS, Action, Target, perform
from pgtrickle.console.panels import PANELS, Panel
from pgtrickle.console.sheet import Sheet
from pgtrickle.console.terminal.bars import draw_keys, draw_panels, draw_state
from pgtrickle.console.terminal.dialogs import Message, Question, help_text
from pgtrickle.console.terminal.grid import Grid
from pgtrickle.console.view import Explained, View
from pgtrickle.console.watching import Watch
from pgtrickle.errors import TrickleError

_SOURCES = ("graph", "capture")  # panels whose lines are sources, or may be
_UNANSWERED = 3.0  # seconds after which a missing picture is said to be missing


class Console(App[None]):
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
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(one.key, f"open_panel('{one.name}')", show=False) for one in PANELS.values()),
        Binding("slash", "ask('/')", show=False),
        Binding("colon", "ask(':')", show=False),
        Binding("question_mark", "help", show=False),
        Binding("s", "sort(False)", show=False),
        Binding("S", "sort(True)", show=False),
        Binding("space", "stop_or_go", show=False),
        Binding("e", "explain", show=False),
        Binding("escape", "leave_panel", show=False),
        Binding("q", "quit", show=False),
        *(
            Binding(key, f"act('{key}')", show=False)
            for key in dict.fromkeys(one.key for one in ACTIONS)
        ),
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
        super().__init__(ansi_color=True)
        self._watch = watch
        self._trickle = trickle
        self._seconds = seconds
        self._panel = PANELS["overview" if subject is None else "table"]
        self._subject = subject
        self._picture: Picture | None = None
        self._explained: Explained | None = None
        self._order: int | None = None  # the column that lines are sorted by
        self._down = False
        self._words = ""  # of the filter
        self._said = ""
        self._trouble = ""
        self._stopped = False
        self._asked: float | None = None  # when the picture that is awaited was asked for
        self._grid = Grid()

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
        self.set_interval(1.0, self._draw_bars)
        self.look()

    def look(self) -> None:
        """Ask for the next picture, unless one is awaited or none is wanted."""
        if self._asked is None and not self._stopped:
            self._asked = time.monotonic()
            self._look(self._panel, self._ids(), self._subject)

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
        self._asked = None
        if isinstance(found, TrickleError):
            self._trouble = f"error {found.code}: {found}"
            self._said = f"{self._trouble}; trying again"
            self._draw_bars()
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
        sheet = self._panel.draw(self.view).filtered(self._words)
        if self._order is not None and self._order < len(sheet.columns):
            sheet = sheet.sorted_by(self._order, down=self._down)
        self._grid.show(sheet, fresh=fresh)
        self._draw_bars()

    @property
    def view(self) -> View:
        """What the panels are drawn from."""
        assert self._picture is not None  # noqa: S101 - nothing is drawn before
        return View(
            self._picture,
            self._subject,
            self._explained,
            self._watch.notices,
            self._watch.deaf,
            self._watch.log() if self._panel.name == "log" else (),
            self._watch.log_path,
        )

    def _ids(self) -> list[int]:
        """Return the stream tables on the screen, whose latencies are wanted."""
        if self._picture is None or self._panel.name != "overview":
            return []
        known = {one.name: one.id for one in self._picture.tables or ()}
        return [known[key] for key in self._grid.visible_keys if key in known]

    def _draw_bars(self) -> None:
        width = self.size.width
        waits = self._asked is not None and time.monotonic() - self._asked > _UNANSWERED
        trouble = self._trouble or ("no answer" if waits else "")
        state = draw_state(self._picture, trouble, stopped=self._stopped, width=width)
        self.query_one("#state", Static).update(state)
        self.query_one("#panels", Static).update(draw_panels(self._panel, width))
        order = ""
        if self._order is not None and self._order < len(self._grid.sheet.columns):
            order = f"by {self._grid.sheet.columns[self._order].title}{'↓' if self._down else '↑'}"
        keys = draw_keys(self._grid.position, order, self._words, self._said, width)
        self.query_one("#keys", Static).update(keys)

    def on_resize(self, _: events.Resize) -> None:
        """Draw the bars for the new width."""
        self._draw_bars()

    def action_open_panel(self, name: str, subject: str | None = None) -> None:
        """Open a panel."""
        if name == "table" and self._panel.name != "table":
            self._subject = subject or self._named_under_cursor() or self._subject
        elif subject is not None:
            self._subject = subject
        self._panel, self._order, self._words, self._said = PANELS[name], None, "", ""
        self._grid.show(Sheet((), (), "asking the database"), fresh=True)
        self._stopped = False
        self._draw_bars()
        self.look()

    @on(Grid.Chosen)
    def open_table(self, chosen: Grid.Chosen) -> None:
        """Open one stream table."""
        if self._panel.name not in {"requests", "settings", "capture", "table"}:
            self.action_open_panel("table", chosen.key)

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
        self._draw_bars()
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

    def say(self, text: str) -> None:
        """Say something in the last line."""
        self._said = text
        self._draw_bars()

    def action_ask(self, sign: str) -> None:
        """Open the line for a filter or a command."""
        field = self.query_one("#words", Input)
        field.value = sign + (self._words if sign == "/" else "")
        field.add_class("open")
        field.focus()
        field.cursor_position = len(field.value)

    @on(Input.Changed, "#words")
    def filter_at_once(self, changed: Input.Changed) -> None:
        """Filter while the words are typed."""
        if changed.value.startswith("/"):
            self._words = changed.value[1:]
            self.draw_sheet()

    @on(Input.Submitted, "#words")
    def take_words(self, submitted: Input.Submitted) -> None:
        """Keep the filter, or do what is commanded."""
        self._close_words()
        if submitted.value.startswith(":"):
            self._command(submitted.value[1:])

    def on_key(self, event: events.Key) -> None:
        """Let Esc close the line for words."""
        if event.key == "escape" and self.query_one("#words", Input).has_class("open"):
            event.stop()
            self._words = ""
            self._close_words()
            self.draw_sheet()

    def _close_words(self) -> None:
        field = self.query_one("#words", Input)
        field.remove_class("open")
        self._grid.focus()

    def _command(self, text: str) -> None:
        word, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        actions = [one for one in ACTIONS if one.name == word and self._fits(one)]
        if word in {"q", "quit"}:
            self.exit()
        elif word in {"h", "help"}:
            self.action_help()
        elif word in PANELS:
            self.action_open_panel(word, rest or None)
        elif word == "every":
            self._set_pace(rest)
        elif actions:
            self._ask(actions[0], rest or self._key_for(actions[0]))
        elif word:
            self.say(f"there is no command {word}: see ?")

    def _set_pace(self, text: str) -> None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0.2 <= seconds <= 3600:
            self.say("give a number of seconds from 0.2 to 3600")
            return
        self._seconds = seconds
        self._timer.stop()
        self._timer = self.set_interval(seconds, self.look)
        self.say(f"the database is asked every {seconds:g} s")

    def action_act(self, key: str) -> None:
        """Ask whether to do what a key stands for, about the line under the cursor."""
        for action in ACTIONS:
            if action.key == key and self._fits(action):
                self._ask(action, self._key_for(action))
                return
        self.say(f"{key} is of no use in this panel: see ?")

    def _fits(self, action: Action) -> bool:
        """Whether an action is about the lines of this panel."""
        wanted: Mapping[Target, bool] = {
            Target.REQUEST: self._panel.name == "requests",
            Target.SOURCE: self._panel.name in _SOURCES,
            Target.TABLE: self._panel.name not in {"requests", "settings", "capture"},
        }
        return wanted[action.target]

    def _key_for(self, action: Action) -> str:
        if action.target is Target.TABLE:
            return self._named_under_cursor() or ""
        return self._grid.key

    def _named_under_cursor(self) -> str | None:
        if self._panel.name == "table":
            return self._subject
        return self._grid.key or None

    def _ask(self, action: Action, name: str) -> None:
        if not name:
            self.say(f"choose a {action.target.value} first")
            return

        def answer(yes: bool | None) -> None:  # noqa: FBT001 - textual's call
            if yes:
                self.say(f"{action.name} {name}: begun")
                self._do(action, name)

        self.push_screen(Question(action.question.format(name)), answer)

    @work(thread=True, group="actions")
    def _do(self, action: Action, name: str) -> None:
        answer = perform(action, self._trickle, name)
        self.call_from_thread(self._tell, answer.text, answer.done)

    def _tell(self, text: str, done: bool) -> None:  # noqa: FBT001 - called by name of a thread
        self.say(text.splitlines()[0])
        if not done:
            self.push_screen(Message(text))
        self.look()
