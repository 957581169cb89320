"""Other processes for the tests: some that share the server, some under another account."""

from __future__ import annotations

import multiprocessing
import os
import pwd
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_SHARE = """
import sys
from pathlib import Path
from pgtrickle.embedded.server import start_embedded
server = start_embedded(Path(sys.argv[1]))
print(server.pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def companion(home: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run a second process that joins the server, and tell the server's process id it saw.

    It leaves by ``atexit`` when its standard input ends.
    """
    with subprocess.Popen(
        [sys.executable, "-c", _SHARE, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())


def run_as(name: str, function: Callable[..., object], *arguments: object) -> object:
    """Call a function in a forked process under another account and return what it returned.

    Forked, not started: the interpreter itself often lies where the other account cannot go.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_call_as, args=(name, sender, function, arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        process.join()
        receiver.close()


def _call_as(name: str, sender, function: Callable[..., object], arguments) -> None:
    account = pwd.getpwnam(name)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)
    try:
        sender.send(function(*arguments))
    except Exception as error:  # noqa: BLE001 (whatever it is, the test wants to see it)
        sender.send(f"{type(error).__name__}: {error}")
