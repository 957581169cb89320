"""Attacks by names: nothing in them steers a terminal, forges a line of a log, or breaks JSON."""

from __future__ import annotations

import json
import logging
import unicodedata
from io import StringIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text

from pgtrickle.cli.daemon.log_lines import LogFormat, _Lines
from pgtrickle.cli.output import PlainTable, PrintableConsole, print_error, print_json
from pgtrickle.errors import StreamTableNotFoundError
from pgtrickle.model.text.printable import printable, printable_json, printable_line

# By their categories, as Unicode has them: controls, formats, surrogates, ends of lines.
STEERING = {"Cc", "Cs", "Zl", "Zp"}
DIRECTION = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
HOSTILE = st.text(
    st.one_of(
        st.characters(max_codepoint=0x9F),
        st.sampled_from(
            [*sorted(DIRECTION), "\x1b[2J", "\x9b31m", "\u2028", "\ufeff", "\U000e0041"]
        ),
        st.characters(),
    ).map(lambda one: one[0]),
    min_size=1,
)
FORGED = "a\x1b]0;owned\x07\x1b[2J\r\n2026-01-01 error all is well\u202e\x85\x9b31m"


def steers(text: str, *, allowed: str = "") -> set[str]:
    found = {one for one in text if unicodedata.category(one) in STEERING or one in DIRECTION}
    return found - set(allowed)


@given(HOSTILE)
@example(FORGED)
def test_printable_leaves_nothing_that_steers(text: str):
    assert steers(printable(text), allowed="\n\t") == set()
    assert steers(printable_line(text)) == set()
    document = printable_json(json.dumps({text: text}, ensure_ascii=False))
    assert steers(document) == set()
    assert json.loads(document) == {text: text}


@given(HOSTILE)
@example(FORGED)
def test_console_shows_nothing_that_steers(text: str):
    file = StringIO()
    console = PrintableConsole(file=file, width=10_000, highlight=False)
    table = PlainTable()
    table.add_column("name")
    table.add_row(text)
    table.add_row(Text(text))

    console.print(text, markup=False)
    console.print(Text(text))
    console.print(table)

    assert steers(file.getvalue(), allowed="\n\t") == set()


def test_cells_of_a_table_are_lines_and_not_cut():
    file = StringIO()
    table = PlainTable(box=None, show_header=False, pad_edge=False)
    table.add_column("name")
    table.add_row("a\x1b[2J\nb")

    PrintableConsole(file=file, width=10_000).print(table)

    assert file.getvalue().strip() == r"a\x1b[2J\nb"


@pytest.mark.parametrize("form", LogFormat)
def test_log_line_is_one_line(form: LogFormat):
    record = logging.makeLogRecord(
        {"msg": f"could not refresh {FORGED}", "stream_table": FORGED, "level": logging.ERROR}
    )

    line = _Lines(form).format(record)

    assert steers(line) == set()


@pytest.mark.parametrize("form", LogFormat)
def test_log_hides_passwords_in_what_goes_with_it(form: LogFormat):
    record = logging.makeLogRecord(
        {"msg": "failed", "dsn": "postgresql://me:hunter2@db/x", "more": ["password=hunter2"]}
    )
    record.exc_info = (ValueError, ValueError("password=hunter2"), None)

    assert "hunter2" not in _Lines(form).format(record)


def test_error_is_shown_as_one_line(capsys: pytest.CaptureFixture[str]):
    error = StreamTableNotFoundError(f'the stream table "{FORGED}" does not exist', hint="Look.")

    print_error(error, as_json=False)
    print_json({"name": FORGED})

    shown = capsys.readouterr()
    assert steers(shown.err + shown.out, allowed="\n") == set()
    assert shown.err.count("\n") == 2
