"""How reports and listings show themselves: as plain text, and as HTML in a notebook.

Names, queries and messages may hold anything, so whatever is shown is escaped: for HTML, and so
that nothing steers a terminal or forges a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from html import escape
from typing import Any, ClassVar, TypeVar

from pgtrickle.model.text.names import QualifiedName
from pgtrickle.model.text.printable import printable, printable_line

T = TypeVar("T")

_WIDEST = 80  # characters of a cell
_INDENT = "    "


class Shown:
    """A report that prints well; a dataclass inherits from it.

    ``in_report`` and ``in_listing`` name the fields that are shown, if not all of them are.
    """

    __slots__ = ()
    in_report: ClassVar[tuple[str, ...]] = ()
    in_listing: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def _repr_html_(self) -> str:
        rows = [
            f"<tr><th>{_html(_words(name))}</th><td>{_nested(value)}</td></tr>"
            for name, value in _facts(self)
        ]
        return f"<table>{''.join(rows)}</table>"


class Listing(list[T]):
    r"""A list that prints as a table.

    >>> from dataclasses import make_dataclass
    >>> Fruit = make_dataclass("Fruit", ["name", "kilos"])
    >>> print(Listing([Fruit("apple", 3), Fruit("p\near", None)]))
    name     kilos
    apple    3
    p\near
    >>> Listing([Fruit("<b>", 1)])._repr_html_()
    '<table><tr><th>name</th><th>kilos</th></tr><tr><td>&lt;b&gt;</td><td>1</td></tr></table>'
    """

    def __str__(self) -> str:
        return "\n".join(_table(self)) if self else "nothing"

    def _repr_html_(self) -> str:
        return _html_table(self) if self else "<i>nothing</i>"


def _facts(report: Any) -> list[tuple[str, Any]]:
    """Return the fields of a report that hold something, with their names."""
    wanted = getattr(report, "in_report", ()) or [one.name for one in fields(report)]
    found = [(name, getattr(report, name)) for name in wanted]
    return [(name, value) for name, value in found if value not in (None, "", (), [], {})]


def _lines(report: Any) -> list[str]:
    facts = _facts(report)
    width = max((len(_words(name)) for name, _ in facts), default=0)
    lines: list[str] = []
    for name, value in facts:
        if _is_listing(value):
            lines += [f"{_words(name)}:", *(f"{_INDENT}{line}" for line in _table(value))]
        elif _is_row(value):
            lines += [f"{_words(name)}:", *(f"{_INDENT}{line}" for line in _lines(value))]
        elif "\n" in str(value) and name.endswith("query"):
            text = printable(str(value)).strip("\n").splitlines()
            lines += [f"{_words(name)}:", *(f"{_INDENT}{line}" for line in text)]
        else:
            lines.append(f"{_words(name):<{width}}  {printable_line(_text(value))}")
    return lines


def _table(rows: Sequence[Any]) -> list[str]:
    names = _columns(rows)
    cells = [[_words(name) for name in names]]
    cells += [[_short(_text(_cell(row, name))) for name in names] for row in rows]
    widths = [max(len(line[n]) for line in cells) for n in range(len(names))]
    return [
        "   ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def _html_table(rows: Sequence[Any]) -> str:
    names = _columns(rows)
    head = "".join(f"<th>{_html(_words(name))}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{_html(_text(_cell(row, name)))}</td>' for name in names)}</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _nested(value: Any) -> str:
    if _is_listing(value):
        return _html_table(value)
    if isinstance(value, Shown):
        return value._repr_html_()
    return _html(_text(value))


def _is_listing(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and _is_row(value[0])


def _is_row(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, QualifiedName)


def _columns(rows: Sequence[Any]) -> Sequence[str]:
    first = rows[0]
    if not is_dataclass(first):
        return [""]
    return getattr(first, "in_listing", ()) or [one.name for one in fields(first)]


def _cell(row: Any, name: str) -> Any:
    return getattr(row, name) if name else row


def _words(name: str) -> str:
    return name.replace("_", " ")


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Enum():
            return str(value.value)
        case datetime():
            return value.isoformat(" ", "seconds")
        case float():
            return f"{value:,.1f}" if abs(value) >= 1 else f"{value:g}"
        case timedelta():
            return str(value)
        case Mapping():
            return ", ".join(f"{key}: {_text(one)}" for key, one in value.items())
        case list() | tuple():
            return ", ".join(_text(one) for one in value)
        case Exception() if hasattr(value, "code"):
            return f"{value.code}: {value}"
    return str(value)


def _short(text: str) -> str:
    line = printable_line(text)
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 3]}..."


def _html(text: str) -> str:
    return escape(printable(text))
