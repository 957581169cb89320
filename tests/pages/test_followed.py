"""Each page whose blocks are marked to be run is followed from top to bottom, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.blocks import followed_pages, read_blocks
from tests.pages.reader import Reader, variables


@pytest.fixture
def reader_of(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Reader:
    """Return a reader with a database: an empty one, if the page begins with that."""
    begins = any("pgtrickle init\n" in block.text for block in read_blocks(request.param))
    dsn = request.getfixturevalue("empty_database" if begins else "database")
    # Spark would compute the same; tests/end_to_end/test_readme.py follows pages with it.
    for name, value in variables(dsn, PGTRICKLE_ENGINE="postgres", PWD=str(tmp_path)).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return Reader(dsn, tmp_path)


@pytest.mark.parametrize(
    ("reader_of", "page"), [(page, page) for page in followed_pages()], indirect=["reader_of"],
    ids=followed_pages(),
)  # fmt: skip
def test_page_can_be_followed(reader_of: Reader, page: str) -> None:
    assert reader_of.follow(page) >= 1
