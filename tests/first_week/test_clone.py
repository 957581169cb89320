"""On a fresh clone, the command of the README runs every lane, and the same cases each time."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[2]


def commands(target: str) -> list[str]:
    """Return how a target of the Makefile would call pytest."""
    make = shutil.which("make")
    assert make is not None
    # As typed by a person, also where this test is run by make.
    of_make = ("PGTRICKLE_NEW_CASES", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in of_make}
    done = subprocess.run(
        [make, "-n", target],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if "/pytest" in line]


def test_every_run_is_the_same_and_no_lane_is_left_out():
    [run] = commands("test")

    assert "--randomly-seed=" in run
    assert "spark" not in run  # whether its tests run does not depend on others
    assert settings.get_profile("fixed").derandomize


@pytest.mark.parametrize("target", ["unit", "test-oldest", "test-sample", "first-week"])
def test_what_is_run_before_a_change_is_shared_is_the_same_each_time(target: str):
    runs = commands(target)

    assert runs
    assert all("--randomly-seed=" in run for run in runs)


def test_long_run_draws_new_cases():
    [run] = commands("test-long")

    assert "--randomly-seed=" not in run
