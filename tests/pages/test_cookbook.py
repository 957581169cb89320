"""docs/cookbook.md: each recipe is created, changed and followed by the change alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.fixtures.psql import psql
from tests.labs.lab import Lab
from tests.pages.blocks import Block, read_blocks

PAGE = "docs/cookbook.md"


@dataclass
class Recipe:
    """The blocks between two headings."""

    tables: str
    name: str = ""
    query: str = ""
    change: str = ""
    result: list[Block] = field(default_factory=list)


def recipes() -> Iterator[Recipe]:
    recipe = Recipe("")
    for block in read_blocks(PAGE):
        word, _, rest = block.detail.partition(" ")
        match block.mark, word:
            case "run", "tables":
                recipe = Recipe(block.text)
            case "run", "query":
                recipe.name, recipe.query = rest, block.text
            case "run", "change":
                recipe.change = block.text
            case "prints", _:
                recipe.result.append(block)
                yield recipe
            case other:
                raise AssertionError((block.place, other))


RECIPES = list(recipes())


def test_there_are_twenty_with_a_name_of_their_own() -> None:
    assert len({recipe.name for recipe in RECIPES}) == 20


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipe_follows_its_change(postgres_lab: Lab, recipe: Recipe) -> None:
    postgres_lab.run(recipe.tables)
    postgres_lab.create(recipe.name, recipe.query)

    postgres_lab.window(recipe.change)

    [result] = recipe.result
    said = psql(postgres_lab.trickle.dsn, f"SELECT * FROM {recipe.name} {result.detail};")
    assert not said.err
    assert _trimmed(said.out) == _trimmed(result.text), said.out


def _trimmed(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]
