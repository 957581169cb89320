"""A dump carries everything, and a restoration makes it again: here, elsewhere, twice, in half."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.labs.lab import Lab
from tests.service.lifecycle.dumping import (
    NAMES,
    contents,
    drop_everything,
    dump_text,
    exports,
    make_everything,
    opened,
    prepare,
    two_roles,
)


@pytest.fixture
def full(database: str) -> Iterator[Lab]:
    """Make a database with everything that a dump carries."""
    with two_roles(database) as (reads, asks), opened(database) as lab:
        prepare(lab)
        make_everything(lab, reads, asks)
        yield lab


def test_yaml_brings_everything_back(full: Lab, tmp_path: Path):
    before, rows, scripts = dump_text(full), contents(full), exports(full)
    path = tmp_path / "all.yaml"

    written = full.trickle.definitions.dump_definitions(path)
    drop_everything(full)
    done = full.trickle.definitions.restore_definitions(path)

    assert dump_text(full) == before
    assert contents(full) == rows
    assert exports(full) == scripts
