"""``pgtrickle run`` with DuckDB in Spark's place: a daemon that is up in a second."""

from __future__ import annotations

import sys
from typing import Any

from pgtrickle import Trickle, connect
from pgtrickle.cli.main import app
from pgtrickle.cli.setup import Setup
from tests.fakes.engine import DuckDbEngine
from tests.fixtures.engines import Borrowed


def _connect(dsn: str | None, **more: Any) -> Trickle:
    return connect(dsn, engine=Borrowed(DuckDbEngine()), **more)


if __name__ == "__main__":
    app(["run", *sys.argv[1:]], obj=Setup(connect=_connect))
