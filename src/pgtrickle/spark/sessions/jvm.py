"""Spark's JVM as a child process: started with a timeout, ended for certain.

pyspark would start it too, but loses the process when it is interrupted meanwhile, and waits for
it without end.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_STARTS_WITHIN = 180.0  # seconds, on a busy machine
_LOOK_AGAIN = 0.05
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"


class Jvm:
    """One JVM, from its start to its end; any thread may kill it."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.gateway: Any = None

    def start(self, settings: Mapping[str, str], directory: Path, log: Path) -> Any:
        """Start it and return pyspark's gateway to it; an interruption leaves no JVM behind.

        The settings are on its command line, where every user can read them.
        """
        try:
            with tempfile.TemporaryDirectory(dir=directory) as private:
                answer = Path(private) / "gateway"
                self._launch(settings, answer, log)
                port, secret = self._await_answer(answer)
            self.gateway = _connect(port, secret)
        except BaseException:  # Ctrl-C too
            self.kill()
            raise
        self.gateway.proc = self.process  # where pyspark keeps it
        return self.gateway

    def kill(self) -> None:
        """End it at once; pending calls get an error."""
        process = self.process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)

    def end(self, patience: float) -> bool:
        """Let it end by itself, kill it if it does not; return whether it ended normally."""
        process, gateway = self.process, self.gateway
        if gateway is not None:
            within(patience, gateway.shutdown)
        if process is None:
            return False
        with suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()  # it ends when its input is closed
        try:
            return process.wait(timeout=patience) == 0
        except subprocess.TimeoutExpired:
            self.kill()
            return False

    def _launch(self, settings: Mapping[str, str], answer: Path, log: Path) -> None:
        """Start the process; what interrupts this one is heard when it can be ended again."""
        with _heard_later(signal.SIGINT, signal.SIGTERM):
            self.process = _spark_submit(settings, answer, log)

    def _await_answer(self, answer: Path) -> tuple[int, str]:
        end = time.monotonic() + _STARTS_WITHIN
        while not answer.is_file():
            if self.process is None or self.process.poll() is not None:
                raise ChildProcessError("the JVM ended before it was ready")
            if time.monotonic() > end:
                raise TimeoutError(f"the JVM was not ready after {_STARTS_WITHIN:.0f} s")
            time.sleep(_LOOK_AGAIN)
        told = answer.read_bytes()  # the port, then the length of the secret and the secret
        return int.from_bytes(told[:4], "big"), told[8:].decode()


def within(seconds: float, act: Callable[[], object]) -> bool:
    """Call a function that may hang or fail, and return whether it succeeded in time.

    A hanging call is left to a daemon thread.
    """
    done = threading.Event()

    def work() -> None:
        with suppress(Exception):  # expected of a JVM that died
            act()
        done.set()

    threading.Thread(target=work, name="pgtrickle-within", daemon=True).start()
    return done.wait(seconds)


def _spark_submit(settings: Mapping[str, str], answer: Path, log: Path) -> subprocess.Popen[bytes]:
    from pyspark.find_spark_home import _find_spark_home

    command = [str(Path(_find_spark_home()) / "bin" / "spark-submit")]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    # The workers that it starts must be able to import this package.
    path = [os.environ.get("PYTHONPATH"), str(Path(__file__).parents[3])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(answer),
    }
    # Its output goes to a file, not to the terminal.
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as output:
        return subprocess.Popen(  # noqa: S603 - Spark's own command, with our settings
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            process_group=0,  # Ctrl-C is meant for this process, which then ends it
        )


def _connect(port: int, secret: str) -> Any:
    from pyspark.java_gateway import launch_gateway

    with _environment({_PORT: str(port), _SECRET: secret}):
        return launch_gateway()  # type: ignore[no-untyped-call]  # pyspark's


@contextmanager
def _heard_later(*signals: signal.Signals) -> Iterator[None]:
    """Let signals wait, whose handlers may raise; only the main thread hears any."""
    heard: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for one in signals if threading.current_thread() is threading.main_thread() else ():
            handler = signal.getsignal(one)
            if callable(handler):
                before[one] = handler
                signal.signal(one, lambda number, _: heard.append(number))
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        for number in heard:
            signal.raise_signal(number)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
