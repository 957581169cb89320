"""Tables on a terminal: no name is cut off, and none is broken where there is room."""

from __future__ import annotations

import io

from pgtrickle.cli.output import PrintableConsole, plain_table

NAME = "analytics.monthly_revenue_per_customer_segment"


def drawn(width: int) -> list[str]:
    listing = plain_table("name", "status", "why")
    listing.add_row(NAME, "ACTIVE", "because it was asked for by hand " * 4)
    listing.add_row("public.t", "SUSPENDED", "")
    file = io.StringIO()
    PrintableConsole(file=file, width=width, soft_wrap=True).print(listing)
    return file.getvalue().splitlines()


def test_names_are_whole_where_there_is_room() -> None:
    lines = drawn(100)

    assert any(line.startswith(f"{NAME}   ACTIVE") for line in lines)
    assert max(map(len, lines)) <= 100


def test_names_are_folded_and_not_cut_where_there_is_none() -> None:
    lines = drawn(30)

    assert "…" not in "".join(lines)
    width = next(number for number, sign in enumerate(lines[2]) if sign == " ")
    first = "".join(line[:width] for line in lines[2:]).replace(" ", "")
    assert first.startswith(NAME)
