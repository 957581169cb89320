"""Our Spark and the user's in one process: each goes on as if the other were not there."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pgtrickle.errors import SparkSessionError
from pgtrickle.spark.sessions import scratch
from pgtrickle.spark.sessions.pair import SparkSessions
from tests.fixtures.daemons import await_

_START = """
import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pgtrickle.spark.engine import SparkEngine
from pgtrickle.spark.sessions.pair import SparkSessions

rows = {"t": pa.table({"a": [1, 2, 3]})}

def compute(sessions):
    engine = SparkEngine("", sessions)
    assert engine.run("SELECT a + 1 AS b FROM {t}", rows).num_rows == 3
    assert sessions.large().range(5).count() == 5
    return engine

def ours(**more):
    return SparkSessions(driver_memory="512m", class_archive=False, record_after=None, **more)
"""

_USER_FIRST = """
spark = (SparkSession.builder.master("local[2]").appName("his")
         .config("spark.ui.enabled", "false").config("spark.sql.ansi.enabled", "false")
         .config("spark.sql.session.timeZone", "Europe/Paris").getOrCreate())
spark.range(4).createOrReplaceTempView("mine")
for given in (None, spark):
    engine = compute(ours(session=given))
    assert SparkSession.getActiveSession() is spark
    assert spark.conf.get("spark.sql.ansi.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "Europe/Paris"
    assert [one.name for one in spark.catalog.listTables()] == ["mine"]
    assert engine.sessions.pid is None
    assert engine.measure().executors == 1  # metrics are those of the user's context
    engine.close()
    assert spark.table("mine").count() == 4
    assert SparkSession.builder.getOrCreate() is spark
engine = compute(ours())
spark.stop()
compute(engine.sessions)  # on a context of our own now
engine.close()
print("fine")
"""

_USER_SECOND = """
engine = compute(ours())
spark = SparkSession.builder.appName("his").config("spark.sql.ansi.enabled", "false").getOrCreate()
assert spark.conf.get("spark.sql.ansi.enabled") == "false"
assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
assert engine.sessions.small().conf.get("spark.sql.ansi.enabled") == "true"
assert engine.sessions.large().conf.get("spark.sql.ansi.enabled") == "true"
spark.range(4).createOrReplaceTempView("mine")
compute(engine.sessions)
assert SparkSession.getActiveSession() is spark
engine.close()
assert spark.table("mine").count() == 4
another = compute(ours())  # beside him
another.close()
assert spark.table("mine").count() == 4
spark.stop()
compute(ours()).close()
print("fine")
"""


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _START + code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


def test_session_of_the_user_is_worked_beside_and_left_as_it_was() -> None:
    done = _python(_USER_FIRST)

    assert done.stdout == "fine\n", done.stderr


def test_user_who_comes_later_has_a_session_of_his_own_that_outlives_ours() -> None:
    done = _python(_USER_SECOND)

    assert done.stdout == "fine\n", done.stderr


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(SparkSessionError) as caught:
        SparkSessions(session="local[2]")  # type: ignore[arg-type]  # on purpose

    assert caught.value.code == "ST411"


def test_interrupt_while_spark_starts_leaves_no_jvm_behind(tmp_path: Path) -> None:
    program = (
        "import time\n"
        "from pgtrickle.spark.sessions.pair import SparkSessions\n"
        "sessions = SparkSessions(driver_memory='512m', class_archive=False, record_after=None)\n"
        "try:\n"
        "    sessions.small()\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', sessions.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        [jvm] = await_(lambda: _children(process.pid), 120)

        process.send_signal(signal.SIGINT)

        assert process.stdout is not None
        assert process.stdout.readline() == "interrupted None\n"
        assert jvm not in _children(process.pid)
        process.kill()
        process.wait()
    # What was killed itself is tidied away by the next.
    assert list(tmp_path.iterdir()) != []
    _sweep_in(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_directory_that_another_process_sweeps_too_early_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lock = fcntl.flock
    swept: list[Path] = []

    def sweep_first(file: int, how: int) -> None:
        if how == fcntl.LOCK_EX and not swept:
            swept.extend(tmp_path.iterdir())
            scratch.sweep(tmp_path)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", sweep_first)

    mine = scratch.Scratch()

    assert len(swept) == 1
    assert list(tmp_path.iterdir()) == [mine.path]
    scratch.sweep(tmp_path)
    assert mine.path.exists()
    mine.remove()


def _children(pid: int) -> list[int]:
    """Return the children of a process that run something of Spark's, not its version check."""
    tasks = Path(f"/proc/{pid}/task")
    found = [int(one) for path in tasks.glob("*/children") for one in path.read_text().split()]
    return [one for one in found if "spark" in _command(one)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def _sweep_in(directory: Path) -> None:
    program = (
        "from pgtrickle.spark.sessions.pair import SparkSessions\n"
        "assert SparkSessions().scratch.exists()\n"
    )
    environment = {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(directory)}
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, check=True, timeout=60
    )
