"""A real Airflow runs DAGs over stream tables that a real daemon maintains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from served_shop import Shop, served_shop

_HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with served_shop() as opened:
        yield opened


@pytest.fixture(scope="module")
def environment(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of an Airflow of its own, whose database is made."""
    found = shop.connection.info
    connection = {
        "conn_type": "postgres",
        "host": found.host,
        "port": found.port,
        "schema": found.dbname,
        "login": found.user,
    }
    home = tmp_path_factory.mktemp("airflow")
    words = {
        **os.environ,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(_HERE / "dags"),
        "AIRFLOW_CONN_PGTRICKLE_DEFAULT": json.dumps(connection),
    }
    migrate = [sys.executable, "-m", "airflow", "db", "migrate"]
    subprocess.run(migrate, env=words, check=True, capture_output=True)
    return words


def run(environment: dict[str, str], dag: str, *, fails: bool = False) -> str:
    """Run a DAG to its end; return what it printed."""
    command = [sys.executable, str(_HERE / "dags" / "shop.py"), dag]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout + done.stderr


def test_airflow_finds_the_provider(environment: dict[str, str]) -> None:
    look = (
        "from airflow.providers_manager import ProvidersManager;"
        "print('airflow-provider-pgtrickle' in ProvidersManager().providers)"
    )
    command = [sys.executable, "-c", look]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True"


def test_operators_refresh_and_wait_for_it(shop: Shop, environment: dict[str, str]) -> None:
    shop.order(10, 2, 100)
    told = run(environment, "refresh")
    assert shop.rows("SELECT total FROM best") == [(125,)]
    assert "public.revenue: DIFFERENTIAL, 1 rows inserted, 1 deleted" in told
    # The daemon did both: one was awaited by a worker, one by the triggerer.
    asked = "SELECT count(*) FROM pgtrickle.requests WHERE verb = 'refresh_stream_table'"
    assert shop.rows(asked) == [(2,)]


def test_sensors_wait_until_the_contents_are_fresh(shop: Shop, environment: dict[str, str]) -> None:
    shop.trickle.alter_stream_table("revenue", schedule="1s")
    try:
        told = run(environment, "wait")
    finally:
        shop.trickle.alter_stream_table("revenue", schedule="1h")
    assert "s old, wanted within" in told


def test_a_failing_refresh_fails_the_task(environment: dict[str, str]) -> None:
    for dag in ("missing", "missing_deferred"):
        told = run(environment, dag, fails=True)
        assert 'missing" does not exist' in told
