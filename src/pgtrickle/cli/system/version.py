"""``pgtrickle version`` and ``pgtrickle --version``: which version this is."""

from __future__ import annotations

import platform

from pgtrickle.cli.options import Json
from pgtrickle.cli.output import print_json
from pgtrickle.model.version import VERSION


def version(as_json: Json = False) -> None:
    """Print the version of pgtrickle."""
    if as_json:
        print_json({"pgtrickle": VERSION, "python": platform.python_version()})
    else:
        print_version()


def print_version() -> None:
    """Print which version this is, in one line."""
    print(f"pgtrickle {VERSION}")
