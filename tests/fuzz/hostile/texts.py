"""Text number n of a seed: always the same, and drawable alone."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.hostile.edits import EDITS, GENTLE
from tests.fuzz.hostile.pool import draw_valid
from tests.fuzz.hostile.shapes import reshape

_MOST = 2_000_000  # characters: edits of edits repeat


@dataclass(frozen=True, slots=True)
class HostileText:
    """A text that is given as a query, under a search path."""

    sql: str
    path: str
    about: str = ""

    def text(self) -> str:
        """Write it as the text of a file, in which every character can be seen."""
        lines = self.sql.split("\n")
        return json.dumps({"about": self.about, "path": self.path, "sql": lines}, indent=1) + "\n"


def read_text(path: Path) -> HostileText:
    """Read one from its file."""
    found = json.loads(path.read_text())
    return HostileText("\n".join(found["sql"]), found["path"], found["about"])


def draw_text(seed: int, number: int) -> HostileText:
    """Draw a valid query and spoil it, once or a few times."""
    source = random.Random(f"{seed}:hostile:{number}")
    valid = draw_valid(source)
    sql, names = valid.sql, []
    if source.random() < 0.15:
        sql = reshape(source, sql)
        names.append("reshape")
    gentle = source.random() < 0.6
    often = (1, 1, 1, 2) if gentle else (1, 1, 1, 1, 2, 2, 3)
    for _ in range(source.choice((0, *often) if names else often)):
        edit = source.choice(GENTLE if gentle else EDITS)
        sql = edit(source, sql, draw_valid(source).sql)[:_MOST] or " "
        names.append(edit.__name__)
    return HostileText(sql, valid.path, f"text {number} of seed {seed}: {', '.join(names)}")
