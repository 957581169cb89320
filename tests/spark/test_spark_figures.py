"""What the metrics say of Spark: of one that runs, and of none."""

from __future__ import annotations

import re
import time
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from pgtrickle.cli.daemon.metrics import Metrics
from pgtrickle.cli.daemon.probes import Health
from pgtrickle.errors import TrickleError
from pgtrickle.model.insight.engine_figures import SparkFigures
from pgtrickle.model.metrics import OF_SPARK, OF_SPARK_USE
from pgtrickle.ports import Engine
from pgtrickle.service.insight.metric_values import FigureReader
from pgtrickle.service.runtime import Runtime
from pgtrickle.settings import Settings
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions
from tests.fakes.engine import NoEngine

_MANY = pa.table({"a": pa.array(range(1000), pa.int64())})


def reader(engine: Engine) -> FigureReader:
    settings = Settings(metrics_catalog_snapshot_ttl_ms=0)
    return FigureReader(cast("Runtime", SimpleNamespace(engine=engine, settings=settings)))


def named_on_page(engine: Engine) -> set[str]:
    health = Health()
    health.round("leading")
    page = Metrics(health, engine=reader(engine).read_engine, database="shop").page().decode()
    return set(re.findall(r"^(pgtrickle_spark_\w+)[{ ]", page, re.MULTILINE))


def measured(engine: SparkEngine) -> SparkFigures:
    found = engine.measure()
    assert found is not None
    return found


def test_a_running_spark_tells_what_it_has_and_does(spark_sessions: SparkSessions) -> None:
    engine = SparkEngine("", spark_sessions)
    engine.run("SELECT a FROM {t}", {"t": _MANY})
    before = measured(engine)
    engine.run("SELECT a % 7 AS k, count(*) AS n FROM {t} GROUP BY 1", {"t": _MANY})
    end = time.monotonic() + 10
    while (after := measured(engine)).jobs_completed == before.jobs_completed:
        assert time.monotonic() < end  # the store hears of it a little later

    assert after.tasks_completed > before.tasks_completed
    assert after.task_seconds >= before.task_seconds > 0
    assert after.executors == 1  # the driver, with a local master
    assert after.cores >= 1
    assert 10 * 2**20 < after.heap_used_bytes <= after.heap_max_bytes
    assert named_on_page(engine) == {one.name for one in OF_SPARK}


def test_what_fails_is_counted_once(spark_sessions: SparkSessions) -> None:
    engine = SparkEngine("", spark_sessions)
    engine.run("SELECT a FROM {t}", {"t": _MANY})
    before = measured(engine)
    with pytest.raises(TrickleError):
        engine.run("SELECT 1 DIV (a - a) AS d FROM {t}", {"t": _MANY})
    end = time.monotonic() + 10
    while (after := measured(engine)).jobs_failed == before.jobs_failed:
        assert time.monotonic() < end

    again = measured(engine)

    assert again.jobs_failed == after.jobs_failed == before.jobs_failed + 1
    assert again.tasks_failed > before.tasks_failed
    time.sleep(0.2)
    assert measured(engine).task_seconds == again.task_seconds  # nothing worked meanwhile
    counts = engine.counts
    assert (counts.completed, counts.failed, counts.running) == (1, 1, 0)
    assert counts.seconds > 0


def test_a_scrape_does_not_start_spark() -> None:
    engine = SparkEngine("", SparkSessions())

    found = reader(engine).read_engine()

    assert found.spark is None
    assert found.counts is not None
    assert not found.counts.started
    assert not engine.sessions.started
    assert named_on_page(engine) == {one.name for one in OF_SPARK_USE}
    assert named_on_page(NoEngine()) == set()
