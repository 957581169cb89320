"""``pgtrickle version``: which version this is."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

from pgtrickle.cli.options import Json
from pgtrickle.cli.output import print_json


def version(as_json: Json = False) -> None:
    """Print the version of pgtrickle."""
    if as_json:
        print_json({"pgtrickle": _pgtrickle(), "python": platform.python_version()})
    else:
        print(f"pgtrickle {_pgtrickle()}")


def _pgtrickle() -> str:
    try:
        return version_of("pgtrickle")
    except PackageNotFoundError:
        return "unknown"  # run from a source tree that was never installed
