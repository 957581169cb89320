"""The server and the engine that random cases are played on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pgtrickle.embedded.server import start_embedded
from pgtrickle.settings import POSTGRES, SPARK, Settings, load_settings
from tests.fakes.engine import DuckDbEngine, NoEngine
from tests.fixtures.engines import Borrowed
from tests.fixtures.postgres import enterable_directory, make_hasty

ENGINES = ("spark", "duckdb", "postgres")
EngineFor = Callable[[str], Borrowed]


@contextmanager
def open_server() -> Iterator[str]:
    """Start a server of our own, or use ``PGTRICKLE_TEST_DSN``; yield its connection string."""
    dsn = os.environ.get("PGTRICKLE_TEST_DSN")
    if dsn is not None:
        yield dsn
        return
    with enterable_directory() as directory, start_embedded(directory / "home") as server:
        make_hasty(server.dsn)
        yield server.dsn


@contextmanager
def open_engines(engine: str) -> Iterator[EngineFor]:
    """Yield what makes an engine for a database; all of them share one Spark."""
    if engine == POSTGRES:
        yield lambda _: Borrowed(NoEngine())
    elif engine == "duckdb":
        lent = Borrowed(DuckDbEngine())
        yield lambda _: lent
    else:
        from pgtrickle.spark.engine import SparkEngine
        from pgtrickle.spark.sessions.pair import SparkSessions

        sessions = SparkSessions(driver_memory="1g")
        try:
            yield lambda dsn: Borrowed(SparkEngine(dsn, sessions))
        finally:
            sessions.stop()


def settings_for(engine: str, **others: Any) -> Settings:
    """Return the settings for one of the engines."""
    return load_settings(engine=POSTGRES if engine == POSTGRES else SPARK, **others)
