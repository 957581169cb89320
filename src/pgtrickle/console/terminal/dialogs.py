"""The dialogs of the terminal: a question before an action, an answer after it, the help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from pgtrickle.console.actions import ACTIONS
from pgtrickle.console.panels import PANELS
from pgtrickle.console.sheet import Line, Sheet
from pgtrickle.model.text.printable import printable


class Question(ModalScreen[bool]):
    """Asks before something is done; nothing but y does it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)"),
        Binding("n,escape,q", "dismiss(False)"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__(classes="dialog")
        self._question = question

    def compose(self) -> ComposeResult:
        """Lay it out."""
        text = Text(printable(self._question)).append("\n\n")
        text.append(" y: yes ", "reverse").append("  ").append(" n: no ", "reverse")
        for word, answer in (("y: yes", True), ("n: no", False)):
            start = text.plain.index(word)
            text.apply_meta({"@click": f"screen.dismiss({answer})"}, start, start + len(word))
        yield Static(text, classes="box")


class Message(ModalScreen[None]):
    """Shows a text, as long as it may be, until a key closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q,space,question_mark", "dismiss")
    ]

    def __init__(self, text: str) -> None:
        super().__init__(classes="dialog")
        self._text = text

    def compose(self) -> ComposeResult:
        """Lay it out."""
        with VerticalScroll(classes="box wide"):
            yield Static(Text(printable(self._text)))
            yield Static(Text("\nEsc closes", "dim"))

    def on_mount(self) -> None:
        """Let the arrow keys scroll."""
        self.query_one(VerticalScroll).focus()


def describe(sheet: Sheet, line: Line) -> str:
    """Return the whole of a line, of which a narrow screen shows a part."""
    if line.spans:
        return line.cells[0].text.strip()
    return "\n".join(
        f"{column.title or ' '}: {one.text}"
        for column, one in zip(sheet.columns, line.cells, strict=True)
        if one.text
    )


def help_text() -> str:
    """Return the keys, the panels and the commands."""
    return "\n".join(_help())


def _help() -> Iterable[str]:
    yield "Panels, by key or as a command (:graph)"
    for panel in PANELS.values():
        yield f"  {panel.key}  {panel.name:<10} {panel.about}"
    yield ""
    yield "Keys"
    for keys, about in (
        ("arrows, j k", "move; PgUp, PgDn, Home, End"),
        ("Enter", "open the stream table under the cursor"),
        ("Esc", "back; ends the filter"),
        ("/", "filter: lines with all these words"),
        (":", "command: a panel, an action with a name, or one of those below"),
        ("s S", "sort by the next column; the other way round"),
        ("space", "stop and go: keep this picture"),
        ("e", "ask for the plan of the stream table"),
        ("?", "this help"),
        ("q", "leave"),
    ):
        yield f"  {keys:<12} {about}"
    yield ""
    yield "Actions, each after a question; who may not is told why"
    for action in ACTIONS:
        yield f"  {action.key}  {action.name:<10} {action.target.value}: {action.about}"
    yield ""
    yield "Commands"
    yield "  :NAME            a panel, such as :capture"
    yield "  :table NAME      one stream table"
    yield "  :refresh NAME    any action, on what is named or under the cursor"
    yield "  :every SECONDS   how often the database is asked"
    yield "  :quit            leave"
