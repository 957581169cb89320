"""Sessions start quietly, heal, and name a missing Java: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def _python(code: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def test_starting_prints_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    code = (
        "from pgtrickle.spark.sessions.pair import SparkSessions\n"
        "s = SparkSessions(driver_memory='512m')\n"
        "s.small().range(3).toArrow()\n"
        "s.stop()\n"
        "print('scratch', s.scratch)\n"
    )

    done = _python(code, tmp_path)

    assert done.stderr == ""
    assert done.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
    assert not Path(done.stdout.split()[1]).exists()


def test_a_dead_jvm_is_replaced_at_the_next_use(tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from pyspark import SparkContext\n"
        "from pgtrickle.spark.sessions.pair import SparkSessions\n"
        "s = SparkSessions(driver_memory='512m')\n"
        "s.small().range(1).collect()\n"
        "process = SparkContext._gateway.proc\n"
        "os.kill(process.pid, signal.SIGKILL)\n"
        "process.wait()\n"
        "print(s.small().range(7).count())\n"
        "s.stop()\n"
    )

    done = _python(code, tmp_path)

    assert done.stdout.split() == ["7"], done.stderr


def test_a_missing_java_is_a_coded_error_with_a_hint(tmp_path: Path) -> None:
    code = (
        "from pgtrickle.errors import JavaMissingError\n"
        "from pgtrickle.spark.sessions.pair import SparkSessions\n"
        "try:\n"
        "    SparkSessions().small()\n"
        "except JavaMissingError as error:\n"
        "    print(error.code, error.hint)\n"
    )

    without = _python(code, tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    broken = _python(code, tmp_path, JAVA_HOME=str(tmp_path))

    assert without.stdout.startswith("ST402 Install Java 17"), without.stderr
    assert broken.stdout.startswith("ST402 Install Java 17"), broken.stderr


def test_a_master_that_cannot_start_is_a_coded_error(tmp_path: Path) -> None:
    code = (
        "from pgtrickle.errors import SparkFailedError\n"
        "from pgtrickle.spark.sessions.pair import SparkSessions\n"
        "try:\n"
        "    SparkSessions(master='nonsense').small()\n"
        "except SparkFailedError as error:\n"
        "    print(error.code, error.hint)\n"
    )

    done = _python(code, tmp_path)

    assert done.stdout.startswith("ST403 Check SPARK_MASTER"), done.stderr
