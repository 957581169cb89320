"""What every test run shares: lanes by folder, Hypothesis profiles, fixture plugins."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pgtrickle.sql.text.limits import allow_depth
from tests.lanes import LANES, UNIT_ALONE, is_long, is_sampled, lane_of
from tests.seeds import NEW_CASES

_HERE = Path(__file__).parent

# What a refresh takes depends on the machine: only the tests of the cost model let it choose.
os.environ["PGTRICKLE_COST_MODEL_SAFETY_MARGIN"] = "0"

pytest.register_assert_rewrite("tests.labs.lab")  # before its first import

# Seconds for one test; the first of a session also pays for starting the JVM.
_TIMEOUTS = {"spark": 300, "end_to_end": 600}

pytest_plugins = [
    f"tests.fixtures.{path.stem}" for path in sorted((_HERE / "fixtures").glob("[!_]*.py"))
]

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)
# The same examples in every run, so that a test passes everywhere or nowhere; "new" and "deep" draw
# new ones.
settings.register_profile(
    "fixed",
    deadline=None,
    derandomize=True,
    max_examples=200,
    print_blob=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile("new", settings.get_profile("fixed"), derandomize=False)
settings.register_profile("deep", settings.get_profile("new"), max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "new" if NEW_CASES else "fixed"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the golden files")


def pytest_configure(config: pytest.Config) -> None:
    allow_depth()  # once, before Hypothesis notes the limit it restores after each example
    if config.getoption("--update") and os.environ.get("CI"):
        raise pytest.UsageError("golden files are not rewritten in CI")
    # What a shell without job control starts in the background ignores Ctrl-C, and all below it.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no tests of services for the fast lane: that takes as long as its own tests."""
    fast = config.option.markexpr == UNIT_ALONE and collection_path.parent == _HERE
    return True if fast and collection_path.name in LANES else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        lane = lane_of(item.nodeid, getattr(item, "fixturenames", ()))
        item.add_marker(lane)
        if is_long(item.nodeid):
            item.add_marker("long")
        if is_sampled(item.nodeid):
            item.add_marker("sample")
        if lane in _TIMEOUTS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUTS[lane]))
