"""The documentation site: every page has its place, and it is built without a warning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.site import build, hooks

_LISTED = ("adr/", "benchmarks/")  # by the hooks, all of them


def pages(entry: Any) -> list[str]:
    """Return the pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    return [page for one in inner for page in pages(one)]


def test_every_page_has_one_place_in_the_navigation() -> None:
    named = pages(yaml.safe_load((hooks.ROOT / "mkdocs.yml").read_text())["nav"])
    docs = hooks.ROOT / "docs"
    there = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}

    assert len(named) == len(set(named))
    assert set(named) == {page for page in there if not page.startswith(_LISTED)}, (
        "give it a place in mkdocs.yml"
    )


def test_site_is_built_strictly_and_loads_nothing_from_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0.0").mkdir()
    (tmp_path / "0.0" / "index.html").touch()

    status = build.main(["--home", str(tmp_path), "--version", "0.10"])

    assert status == 0, capsys.readouterr().out
    versions = json.loads((tmp_path / "versions.json").read_text())
    assert [(one["version"], one["aliases"]) for one in versions] == [
        ("0.10", ["latest"]),
        ("0.0", []),
    ]
    assert "0.10/index.html" in (tmp_path / "index.html").read_text()
    found = json.loads((tmp_path / "0.10" / "search" / "search_index.json").read_text())
    assert "project/changelog.html" in {one["location"] for one in found["docs"]}


def test_asset_from_elsewhere_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<script src="https://cdn.example/x.js"></script>')
    (tmp_path / "b.css").write_text("@import url(//fonts.example/x.css);")
    (tmp_path / "c.html").write_text('<a href="https://example.org">elsewhere</a>')

    assert len(build.loaded_from_elsewhere(tmp_path)) == 2
