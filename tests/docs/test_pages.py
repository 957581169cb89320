"""The hand-written pages point at things that exist, and the layer map at the layers."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
ARCHITECTURE = ROOT / "docs" / "architecture.md"


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)

    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_no_long_passage_stands_twice_on_a_page(page: str):
    passages = [one.strip() for one in (ROOT / page).read_text().split("\n\n")]
    long = [one for one in passages if len(one) > 160 and not one.startswith("| ")]

    assert [one for one in long if long.count(one) > 1] == []


def test_the_layer_map_is_the_import_contract():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())
    [layers] = [
        one["layers"]
        for one in contract["tool"]["importlinter"]["contracts"]
        if one["type"] == "layers"
    ]

    block = re.search(r"<!-- layers -->\n```text\n(.*?)\n```", ARCHITECTURE.read_text(), re.DOTALL)

    assert block is not None
    assert block.group(1).splitlines() == [re.sub(r"[()]", "", layer) for layer in layers]


def test_the_life_of_a_change_names_files_that_exist():
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.py)`", ARCHITECTURE.read_text())

    assert named
    assert [name for name in named if not _exists(name)] == []


def _exists(name: str) -> bool:
    return (ROOT / "src" / "pgtrickle" / name).exists() or (ROOT / name).exists()


def test_decisions_are_numbered_without_gaps_and_have_the_four_parts():
    decisions = sorted((ROOT / "docs" / "adr").glob("*.md"))
    texts = {path.name: path.read_text() for path in decisions}

    assert [name[:4] for name in texts] == [f"{n:04d}" for n in range(1, len(decisions) + 1)]
    assert [
        name
        for name, text in texts.items()
        if not all(part in text for part in _PARTS) or not text.startswith(f"# {name[:4]}: ")
    ] == []


_PARTS = ("**Status:**", "## Context", "## Decision", "## Consequences")
