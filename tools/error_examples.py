"""What brings about each error, and an example: for docs/errors.md, from error_examples.toml.

``does`` is a statement or a command, or what happens; ``says`` is the message.  A test compares the
codes with those of ``errors.py``, looks for the words of each message in the package, and runs the
examples that need nothing but a database.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final, NamedTuple

_FILE = Path(__file__).with_suffix(".toml")


class Example(NamedTuple):
    """One error: its cause, what a user did, and the message."""

    cause: str
    does: str
    says: str


EXAMPLES: Final = {
    code: Example(**parts)
    for code, parts in tomllib.loads(_FILE.read_text(encoding="utf-8")).items()
}
