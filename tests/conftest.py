"""What every test run shares: lanes by folder, Hypothesis profiles, fixture plugins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pgtrickle.sql.limits import allow_depth
from tests.seeds import NEW_CASES

_HERE = Path(__file__).parent

# What a refresh takes depends on the machine: only the tests of the cost model let it choose.
os.environ["PGTRICKLE_COST_MODEL_SAFETY_MARGIN"] = "0"

pytest.register_assert_rewrite("tests.service.lab")  # before its first import

# A lane is a marker, and the marker comes from the folder; what is not listed is "unit".  Whatever
# starts Spark is in the lane whose tests share one JVM.
_LANES = {
    **dict.fromkeys(
        ("catalog", "capture", "storage", "embedded", "service", "cli", "lake", "security"),
        "postgres",
    ),
    **dict.fromkeys(("workloads", "soak", "chaos", "hostile"), "postgres"),
    "spark": "spark",
    "end_to_end": "end_to_end",
}
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(_HERE).parts[0] if _HERE in item.path.parents else ""
        lane = _LANES.get(folder, "unit")
        if lane == "postgres" and "spark_sessions" in getattr(item, "fixturenames", ()):
            lane = "spark"
        item.add_marker(lane)
        if lane in _TIMEOUTS and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_TIMEOUTS[lane]))
