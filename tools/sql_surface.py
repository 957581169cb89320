"""Write docs/sql_reference.md: what ``catalog/sql_api`` defines, with an example of each.

Signatures and meanings come from those files, the examples from ``sql_examples.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pgtrickle.catalog.migrate import list_api_files
from tools.sql_examples import EXAMPLES, PREPARATION

_DEFINITION = re.compile(
    r"CREATE (?:OR REPLACE )?(FUNCTION|PROCEDURE) pgtrickle\.(\w+)\s*\((.*?)\)\n"
    r"(?:RETURNS (.*?)\n)?LANGUAGE",
    re.DOTALL,
)
_COMMENT = re.compile(
    r"COMMENT ON (FUNCTION|PROCEDURE|VIEW) pgtrickle\.(\w+)(?:\s*\(.*?\))? IS"
    r"\s+'((?:[^']|'')*(?:'\s*\n\s*'(?:[^']|'')*)*)'",
    re.DOTALL,
)
_CONTINUED = re.compile(r"'\s*\n\s*'")  # a string that goes on in the next line
_VIEWS = (
    "stream_tables_info",
    "quick_health",
    "requests",
    "project_tables",
    "project_test_results",
)
# Filled in by the caller's session; nobody writes them.
_HIDDEN = ("schemas name[]", "subscriber text", "author text")

_INTRODUCTION = Path(__file__).with_name("sql_reference_introduction.md")


@dataclass(frozen=True, slots=True)
class Routine:
    """One function or procedure."""

    kind: str
    arguments: tuple[str, ...]
    returns: str
    meaning: str


def read_routines() -> dict[str, Routine]:
    """Return what is defined in the schema ``pgtrickle``, by name."""
    text = "\n".join(file.sql for file in list_api_files())
    meanings = {
        name: _plain(_CONTINUED.sub("", words)) for _, name, words in _COMMENT.findall(text)
    }
    return {
        name: Routine(kind.lower(), _arguments(inside), _type(returns), meanings.get(name, ""))
        for kind, name, inside, returns in _DEFINITION.findall(text)
    }


def read_views() -> dict[str, str]:
    """Return the meaning of each view that is meant for users."""
    text = "\n".join(file.sql for file in list_api_files())
    found = {
        name: _plain(_CONTINUED.sub("", words))
        for kind, name, words in _COMMENT.findall(text)
        if kind == "VIEW"
    }
    return {name: found[name] for name in _VIEWS}


def sql_reference_page() -> list[str]:
    """Return the parts of the page."""
    routines = read_routines()
    parts = [
        _INTRODUCTION.read_text(encoding="utf-8").rstrip(),
        "The examples run after this:",
        f"```sql\n{PREPARATION.rstrip()}\n```",
    ]
    for section, examples in EXAMPLES.items():
        parts.append(f"## {section}")
        for name, example in examples.items():
            parts += _entry(name, routines[name], example)
    parts.append("## Views")
    rows = "\n".join(f"| `pgtrickle.{name}` | {words} |" for name, words in read_views().items())
    parts.append(f"| view | meaning |\n| --- | --- |\n{rows}")
    return parts


def _entry(name: str, routine: Routine, example: str) -> list[str]:
    shown = [one for one in routine.arguments if not one.startswith(_HIDDEN)]
    signature = f"{name}({', '.join(shown)})"
    returns = f" → {routine.returns}" if routine.returns and routine.returns != "void" else ""
    return [
        f"### {name}",
        f"`{signature}{returns}`",
        routine.meaning,
        f"```sql\n{example};\n```",
    ]


def _arguments(inside: str) -> tuple[str, ...]:
    """Split a list of arguments at its own commas, not at those inside brackets."""
    flat = " ".join(inside.replace("pg_catalog.", "").split())
    parts = re.split(r",\s*(?![^(]*\))", flat) if flat else []
    return tuple(
        part.replace("INOUT result", "OUT result")
        .replace(" DEFAULT NULL", " = NULL")
        .replace(" DEFAULT ", " = ")
        for part in parts
    )


def _type(text: str) -> str:
    return " ".join(text.replace("pg_catalog.", "").split())


def _plain(words: str) -> str:
    return " ".join(words.replace("''", "'").split())
