"""``make site``: build the documentation into build/site, one directory for each version.

What was built for other versions stays, so a directory that is published release by release has
them all: ``versions.json``, which the page's menu of versions reads, lists them.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mkdocs.commands.build import build as build_site
from mkdocs.config import load_config

from pgtrickle.model.version import VERSION

ROOT = Path(__file__).parents[2]
LATEST = "latest"
# What a browser loads without being asked to; links that a reader follows are not among them.
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//"""
    r"""|<link\b(?=[^>]*rel=["']?(?:stylesheet|preconnect|icon|preload))[^>]*href=["']?(?:https?:)?//"""
    r"""|@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//""",
    re.IGNORECASE,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build this version; exit with 1 if a page would load anything from elsewhere."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--home", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--version", default=".".join(VERSION.split(".")[:2]))
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    home: Path = options.home
    build(home / options.version)
    list_versions(home, options.version)
    found = loaded_from_elsewhere(home / options.version)
    sys.stdout.writelines(f"loads from elsewhere: {line}\n" for line in found)
    sys.stdout.write(f"{home / options.version / 'index.html'}\n")
    return int(bool(found))


def build(target: Path) -> None:
    """Build strictly: a warning is an error."""
    shutil.rmtree(target, ignore_errors=True)
    config: Any = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(target), strict=True)
    build_site(config)


def list_versions(home: Path, newest: str) -> None:
    """Write the list of versions, and lead who asks for none, or the latest, to the newest."""
    versions = sorted(
        (path.parent.name for path in home.glob("*/index.html") if path.parent.name != LATEST),
        key=lambda name: [int(part) if part.isdigit() else -1 for part in name.split(".")],
        reverse=True,
    )
    entries = [
        {"version": one, "title": one, "aliases": [LATEST] if one == newest else []}
        for one in versions
    ]
    (home / "versions.json").write_text(json.dumps(entries, indent=1) + "\n")
    (home / LATEST).mkdir(exist_ok=True)
    for page, way in ((home / "index.html", ""), (home / LATEST / "index.html", "../")):
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={way}{newest}/index.html">'
            f'<a href="{way}{newest}/index.html">pgtrickle {newest}</a>\n'
        )


def loaded_from_elsewhere(site: Path) -> list[str]:
    """Return what pages and style sheets would load from other servers when they are read."""
    return [
        f"{path.relative_to(site)}: {found.group()}"
        for path in sorted((*site.rglob("*.html"), *site.rglob("*.css")))
        for found in _LOADED.finditer(path.read_text(errors="replace"))
    ]


if __name__ == "__main__":
    sys.exit(main())
