"""A process that is interrupted while it starts its JVM leaves none behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pgtrickle.spark.sessions import jvm as module
from pgtrickle.spark.sessions.jvm import Jvm


def _leave(*_: object) -> None:
    sys.exit(1)


@pytest.fixture
def leaving() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, _leave)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("leaving")
@pytest.mark.parametrize("late", [False, True], ids=["before it runs", "while it runs"])
def test_what_was_just_started_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: Any) -> subprocess.Popen[bytes]:
        if not late:
            signal.raise_signal(signal.SIGTERM)
        started.append(subprocess.Popen(["/bin/sleep", "100"]))
        if late:
            signal.raise_signal(signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(module, "_spark_submit", start)

    with pytest.raises(SystemExit):
        Jvm().start({}, tmp_path, tmp_path / "log")

    assert [one.poll() for one in started] == [-signal.SIGKILL]
    assert signal.getsignal(signal.SIGTERM) is _leave
