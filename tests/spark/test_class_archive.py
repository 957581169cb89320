"""The archive of Spark's classes: written once, then used, and trusted only where it is ours."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from pgtrickle.spark.sessions.class_archive import ClassArchive, find_archive
from pgtrickle.spark.sessions.record_classes import Recorder

_START = """
from pgtrickle.spark.sessions.pair import SparkSessions

sessions = SparkSessions(master="local[1]")
session = sessions.small()
options = session.conf.get("spark.driver.extraJavaOptions")
session.sql("SELECT 1").collect()
sessions.stop()
print(options)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with a blank"))
    return tmp_path / "with a blank" / "pgtrickle"


def _found(tmp_path: Path, java: str = "java 17") -> ClassArchive:
    archive = find_archive(java, tmp_path)
    assert archive is not None
    return archive


def _start_spark() -> str:
    done = subprocess.run(
        [sys.executable, "-c", _START], check=True, capture_output=True, text=True, timeout=300
    )
    return done.stdout


def test_first_process_writes_what_the_second_one_uses(cache: Path) -> None:
    assert "-XX:ArchiveClassesAtExit=" in _start_spark()

    [written] = cache.iterdir()
    assert written.stat().st_size > 2**20
    assert f"-XX:SharedArchiveFile={written}" in _start_spark()
    assert list(cache.iterdir()) == [written]


def test_process_that_goes_on_has_it_written_beside_it(cache: Path) -> None:
    program = f"""
from contextlib import suppress
from pathlib import Path
import time
from pgtrickle.spark.sessions.pair import SparkSessions

sessions = SparkSessions(master="local[1]", record_after=0.0)
sessions.small()
while not list(Path({str(cache)!r}).glob("*.jsa")):
    time.sleep(0.2)
sessions.stop()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)

    [written] = cache.glob("*.jsa")
    assert written.stat().st_size > 2**20
    assert f"-XX:SharedArchiveFile={written}" in _start_spark()


@pytest.mark.parametrize("soon", [1.0, 3.0])
def test_who_ends_soon_leaves_nobody_behind(cache: Path, soon: float) -> None:
    recorder = Recorder(after=0)
    recorder.start()
    time.sleep(soon)
    recorder.stop()

    end = time.monotonic() + 60
    while [one for one in threading.enumerate() if one.name == "pgtrickle-classes"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert not list(cache.glob("*.jsa"))
    assert _processes_with(f"XDG_CACHE_HOME={cache.parent}") == []


def _processes_with(variable: str) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text().replace("\0", " "))
    return found


def test_each_runtime_has_an_archive_of_its_own(cache: Path, tmp_path: Path) -> None:
    assert _found(tmp_path, "java 17").path.parent == cache
    assert _found(tmp_path, "java 17").path == _found(tmp_path, "java 17").path
    assert _found(tmp_path, "java 17").path != _found(tmp_path, "java 21").path


@pytest.mark.usefixtures("cache")
def test_runtime_that_writes_none_is_not_asked_again(tmp_path: Path) -> None:
    _found(tmp_path).keep()

    assert find_archive("java 17", tmp_path) is None


def test_directory_that_others_may_write_to_is_not_trusted(cache: Path, tmp_path: Path) -> None:
    cache.mkdir(parents=True)
    cache.chmod(0o777)

    assert find_archive("java 17", tmp_path) is None


def test_archives_that_nobody_uses_are_forgotten(cache: Path, tmp_path: Path) -> None:
    archive = _found(tmp_path)
    assert archive.draft is not None
    old, recent = cache / "spark-old.jsa", cache / "spark-recent.jsa"
    for one in (old, recent, archive.draft):
        one.write_bytes(b"classes")
    os.utime(old, (0, time.time() - 40 * 86_400))

    archive.keep()

    assert sorted(cache.iterdir()) == sorted([recent, archive.path])
    assert archive.path.read_bytes() == b"classes"
    assert _found(tmp_path).draft is None
