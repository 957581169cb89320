"""The whole line: real PostgreSQL, real Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest

if TYPE_CHECKING:
    from pgtrickle.client.trickle import Trickle
    from tests.labs.lab import Lab


@pytest.fixture
def lab(shared_spark_trickle: Trickle) -> Iterator[Lab]:
    from tests.labs.lab import Lab

    with psycopg.connect(shared_spark_trickle.dsn, autocommit=True) as connection:
        lab = Lab(shared_spark_trickle, connection)
        lab.reset()
        yield lab
