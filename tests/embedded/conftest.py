"""Directories for embedded servers, cleaned up whatever the test left running in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgtrickle.embedded import postmaster, users
from pgtrickle.embedded.home import open_base, open_home
from tests.fixtures.postgres import enterable_directory


@pytest.fixture
def home() -> Iterator[Path]:
    with enterable_directory() as directory:
        yield directory / "home"
        stop_whatever_runs(directory / "home")


def stop_whatever_runs(directory: Path) -> None:
    home = open_home(directory)
    users._write(home.users, [])
    postmaster.stop(open_base(home))
