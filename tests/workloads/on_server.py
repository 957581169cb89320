"""Plays a workload on a PostgreSQL server of its own, by an engine that is chosen by name."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection

import psycopg

import pgtrickle
from pgtrickle.embedded.server import start_embedded
from pgtrickle.ports import Engine
from pgtrickle.settings import POSTGRES, SPARK, Settings
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.postgres import enterable_directory
from tests.workloads.outcome import Outcome
from tests.workloads.play import play
from tests.workloads.workload import Workload

_DUCKDB = "duckdb"
_MEMORY = "1GB"  # of DuckDB: no query here needs a tenth of it
ENGINES = (SPARK, _DUCKDB, POSTGRES)


def play_on_server(
    workload: Workload, only: Collection[str], *, cycles: int, engine: str
) -> dict[str, Outcome]:
    """Play the chosen queries and tell on standard error how far it is.

    Under AUTO a refresh follows the changes wherever it can, whatever that costs: the tables are
    small, and to compute a query anew would always be cheaper.
    """
    duckdb: Engine | None = DuckDbEngine(_MEMORY) if engine == _DUCKDB else None
    settings = Settings(
        engine=POSTGRES if engine == POSTGRES else SPARK, cost_model_safety_margin=0
    )
    with (
        enterable_directory() as directory,
        start_embedded(directory / "home") as server,
        pgtrickle.connect(server.dsn, engine=duckdb, settings=settings, init=True) as trickle,
        psycopg.connect(server.dsn, autocommit=True) as connection,
    ):
        return play(trickle, connection, workload, cycles=cycles, only=only, say=_say)


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
