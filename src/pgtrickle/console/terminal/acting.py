"""Words and deeds: the line for a filter or a command, and actions with a question before each."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from textual import events, on, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.widgets import Input

from pgtrickle.client.trickle import Trickle
from pgtrickle.console.actions import ACTIONS, Action, Target, perform
from pgtrickle.console.panels import PANELS, Panel
from pgtrickle.console.terminal.dialogs import Message, Question
from pgtrickle.console.terminal.grid import Grid

_SOURCES = ("graph", "capture")  # panels whose lines are sources, or may be
_FASTEST, _SLOWEST = 0.2, 3600.0  # seconds between two pictures


class Acting(App[None]):
    """The part of the console that takes words and does things."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "ask('/')", show=False),
        Binding("colon", "ask(':')", show=False),
        *(
            Binding(key, f"act('{key}')", show=False)
            for key in dict.fromkeys(one.key for one in ACTIONS)
        ),
    ]

    def __init__(self, trickle: Trickle, panel: Panel) -> None:
        super().__init__(ansi_color=True)
        self._trickle = trickle
        self._panel = panel
        self._subject: str | None = None
        self._words = ""  # of the filter
        self._said = ""
        self._grid = Grid()

    @abstractmethod
    def look(self) -> None:
        """Ask for the next picture."""

    @abstractmethod
    def draw_sheet(self, *, fresh: bool = False) -> None:
        """Draw the panel from the last picture."""

    @abstractmethod
    def draw_bars(self) -> None:
        """Draw the lines above and below the sheet."""

    @abstractmethod
    def action_open_panel(self, name: str, subject: str | None = None) -> None:
        """Open a panel."""

    @abstractmethod
    def action_help(self) -> None:
        """Show the help."""

    @abstractmethod
    def set_pace(self, seconds: float) -> None:
        """Ask the database at other intervals."""

    def say(self, text: str) -> None:
        """Say something in the last line."""
        self._said = text
        self.draw_bars()

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
        if not _FASTEST <= seconds <= _SLOWEST:
            self.say(f"give a number of seconds from {_FASTEST:g} to {_SLOWEST:g}")
            return
        self.set_pace(seconds)
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
        wanted = {
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
