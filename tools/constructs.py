"""The support table as data: reads ``constructs.sql``, which says what its marks mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_FILE = Path(__file__).with_name("constructs.sql")
_MARK = re.compile(r"^-- (\w+): ?(.*)$")
_REFUSED = "ST102"


@dataclass(frozen=True, slots=True)
class Construct:
    """One row of the support table."""

    group: str
    title: str
    query: str
    differential: bool
    how: str  # how it is maintained, or what limits it
    code: str  # of the refusal, where it is not differential
    constant: bool  # no change reaches its result
    since: int  # the first version of PostgreSQL that knows it


@dataclass(slots=True)
class Examples:
    """The tables of the examples, what happens to them, and the examples."""

    schema: list[str] = field(default_factory=list)
    windows: list[list[str]] = field(default_factory=list)
    constructs: list[Construct] = field(default_factory=list)


def read_examples(path: Path = _FILE) -> Examples:
    """Read the file of examples."""
    examples = Examples()
    group, section = "", ""
    for marks, sql in _blocks(path.read_text(encoding="utf-8")):
        if "group" in marks:
            group = marks["group"]
        section = next((one for one in ("schema", "window") if one in marks), section)
        if "window" in marks:
            examples.windows.append([])
        if "construct" in marks:
            examples.constructs.append(_construct(group, marks, sql))
        elif sql and section == "schema":
            examples.schema.append(sql)
        elif sql:
            examples.windows[-1].append(sql)
    return examples


def _blocks(text: str) -> Iterator[tuple[dict[str, str], str]]:
    """Yield the marks and the SQL of each block; blank lines end a block."""
    for block in re.split(r"\n\s*\n", text):
        lines = block.strip().splitlines()
        found = [_MARK.match(line) for line in lines if line.startswith("--")]
        marks = {match[1]: match[2] for match in found if match is not None}
        yield marks, "\n".join(line for line in lines if not line.startswith("--"))


def _construct(group: str, marks: dict[str, str], sql: str) -> Construct:
    differential = marks["differential"]
    if differential not in {"yes", "no"}:
        raise ValueError(f"{marks['construct']}: differential is yes or no, not {differential}")
    return Construct(
        group,
        marks["construct"],
        sql,
        differential == "yes",
        marks.get("how", ""),
        marks.get("code", _REFUSED),
        marks.get("constant") == "yes",
        int(marks.get("since", "15")),
    )
