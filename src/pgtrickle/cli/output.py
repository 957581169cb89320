"""What commands print and how they end: answers to standard output, the rest to standard error.

Exit codes: 0 for success, 1 for an error that has a code or an answer of "no", 2 for a usage
mistake (Typer's own), 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pgtrickle.cli.documents import error_document
from pgtrickle.cli.setup import Setup
from pgtrickle.errors import InternalError, TrickleError
from pgtrickle.extras import explain_missing
from pgtrickle.model.text.passwords import hide_passwords
from pgtrickle.model.text.printable import printable, printable_json, printable_line

_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_LAST_COLUMN = 20  # characters that the last column of a table needs at least
_PIPE_WIDTH = 10_000  # a table in a file or a pipe is as wide as its contents


@contextmanager
def errors_as_exit_codes(
    ctx: typer.Context, *, as_json: bool, compact: bool = False
) -> Iterator[None]:
    """Print an error and exit 1; nothing that happens inside shows a traceback by itself."""
    debug = ctx.ensure_object(Setup).debug
    try:
        yield
    except TrickleError as error:
        print_error(error, as_json=as_json, debug=debug, compact=compact)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(_INTERRUPTED) from None
    except (typer.Exit, BrokenPipeError):
        raise
    except ModuleNotFoundError as error:
        print_error(explain_missing(error) or _unforeseen(error), as_json=as_json, debug=debug)
        raise typer.Exit(1) from error
    except Exception as error:
        # The last line of defence: what nobody foresaw is a bug of ours, and is shown as one.
        print_error(_unforeseen(error), as_json=as_json, debug=debug, compact=compact)
        raise typer.Exit(1) from error


def print_error(
    error: TrickleError, *, as_json: bool, debug: bool = False, compact: bool = False
) -> None:
    """Print an error: as JSON to standard output, or for people to standard error."""
    if debug:
        sys.stderr.write(printable(hide_passwords("".join(traceback.format_exception(error)))))
    if as_json:
        print_json(error_document(error), indent=None if compact else 2)
        return
    console = stderr()
    console.print(_plain(f"error {error.code}: ", style="bold red") + _plain(one_line(error)))
    if error.detail:
        console.print(_plain(error.detail.rstrip("\n")))
    if error.hint:
        console.print(_plain("hint: ", style="bold") + _plain(error.hint))


def print_json(document: Mapping[str, object], *, indent: int | None = 2) -> None:
    """Print one JSON document, always an object; ``indent`` None keeps it on one line."""
    print(printable_json(json.dumps(document, indent=indent, ensure_ascii=False)), flush=True)


def print_text(text: str) -> None:
    """Print an answer of several lines as it is, but for what would steer the terminal."""
    print(printable(text), flush=True)


def one_line(error: TrickleError) -> str:
    """Return the fact of an error, of which a name in it cannot make two."""
    return printable_line(str(error))


class PrintableConsole(Console):
    """A console on which nothing that is shown steers the terminal; only its own styles do."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Render something; every text passes here, those in the cells of a table too."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a text, written out before its width is measured."""
        return super().render_str(printable(text), **options)


class PlainTable(Table):
    """A table whose cells are lines: a name cannot forge another row, and none is cut off.

    What is too wide for the terminal goes on in the next line, in the last column if that helps.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Keep all columns but the last one whole, if there is room."""
        widths = [
            max(cell_len(str(cell)) for cell in (column.header, *column.cells))
            for column in self.columns[:-1]
        ]
        if sum(widths) + 3 * len(widths) + _LAST_COLUMN <= options.max_width:
            for column in self.columns[:-1]:
                column.no_wrap = True  # so that the last one gives way
        yield from super().__rich_console__(console, options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Add a row."""
        lines = [
            Text(printable_line(str(cell)), style=cell.style if isinstance(cell, Text) else "")
            if isinstance(cell, str | Text)
            else cell
            for cell in cells
        ]
        super().add_row(*lines, **options)


def stdout() -> Console:
    """Return a console for answers; in a pipe it neither colours nor cuts."""
    width = None if sys.stdout.isatty() else _PIPE_WIDTH
    return PrintableConsole(highlight=False, soft_wrap=True, width=width)


def stderr() -> Console:
    """Return a console for errors and progress."""
    width = None if sys.stderr.isatty() else _PIPE_WIDTH
    return PrintableConsole(stderr=True, highlight=False, soft_wrap=True, width=width)


def plain_table(*columns: str, right: tuple[str, ...] = ()) -> PlainTable:
    """Make a table without lines; the columns named in ``right`` hold numbers."""
    table = PlainTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        # What does not fit into the terminal goes on in the next line: nothing is cut off.
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def working(doing: str) -> AbstractContextManager[object]:
    """Show on the terminal that something takes a while; nothing when nobody watches."""
    console = stderr()
    if not console.is_terminal or console.is_dumb_terminal:
        return nullcontext()
    return console.status(_plain(f"{doing} ..."))


def _plain(text: str, style: str = "") -> Text:
    # Text, not markup: names and SQL may hold brackets.
    return Text(printable(hide_passwords(text)), style=style)


def _unforeseen(error: Exception) -> InternalError:
    internal = InternalError(
        f"unexpected {type(error).__name__}: {error}",
        hint="This is a bug in pgtrickle. Please report it with the output of the same command"
        " under PGTRICKLE_DEBUG=1.",
    )
    internal.__cause__ = error
    return internal
