"""The jobs of a refresh have a name, a pool, and an end before their time."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from pgtrickle.errors import SparkFailedError
from pgtrickle.ports import job_named
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions
from tests.fixtures.daemons import await_

# Minutes, in tasks that are short: a running one is not interrupted for another job.
ENDLESS = "SELECT count(*) AS n FROM range(0, 2000000000, 1, 2000) WHERE id % 7 = 8"
ONE = {"t": pa.table({"a": [1]})}


@pytest.fixture
def engine(spark_sessions: SparkSessions) -> Iterator[SparkEngine]:
    yield SparkEngine("", spark_sessions)
    spark_sessions.large().sparkContext.cancelAllJobs()  # what a test that failed left behind


def test_cancelled_refresh_fails_and_another_goes_on(
    engine: SparkEngine, spark_sessions: SparkSessions
) -> None:
    engine.run("SELECT a FROM {t}", ONE)
    errors: list[SparkFailedError] = []

    def refresh() -> None:
        with job_named("public.endless"):
            try:
                engine.run(ENDLESS, {})
            except SparkFailedError as error:
                errors.append(error)

    thread = threading.Thread(target=refresh, daemon=True)
    thread.start()
    await_(spark_sessions.large().sparkContext.statusTracker().getActiveJobsIds)
    with job_named("public.other"):
        assert engine.run("SELECT a FROM {t}", ONE).num_rows == 1
    assert thread.is_alive()

    engine.cancel("public.endless")
    thread.join(timeout=60)

    assert not thread.is_alive()
    assert len(errors) == 1
    assert engine.run("SELECT a FROM {t}", ONE).num_rows == 1


def test_name_with_a_comma_can_be_cancelled(engine: SparkEngine) -> None:
    with job_named('public."a,b"'):
        assert engine.run("SELECT a FROM {t}", ONE).num_rows == 1
    engine.cancel('public."a,b"')


def test_nothing_of_a_refresh_stays_with_the_thread(
    engine: SparkEngine, spark_sessions: SparkSessions
) -> None:
    with job_named("public.one"):
        engine.run("SELECT a FROM {t}", ONE)

    context = spark_sessions.large().sparkContext
    assert list(context.getJobTags()) == []  # a set of the JVM equals no set of Python
    assert context.getLocalProperty("spark.scheduler.pool") is None
