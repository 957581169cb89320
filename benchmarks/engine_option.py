"""The option by which a benchmark chooses the engine of its stream tables."""

from __future__ import annotations

import argparse

from pgtrickle.model.engine import EngineMode
from pgtrickle.settings import Settings


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--engine``."""
    parser.add_argument(
        "--engine",
        choices=[one.value for one in EngineMode],
        default=EngineMode.SPARK.value,
        help="which engine computes the refreshes",
    )


def engine_settings(options: argparse.Namespace) -> Settings:
    """Return settings with the chosen engine."""
    return Settings(engine=options.engine)
