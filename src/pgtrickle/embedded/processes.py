"""Whether a process noted down earlier is still the same process.

A bare process id proves nothing: the kernel hands it out again.  Together with the moment the
process started (in clock ticks since boot, and which boot) it names one process for good.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"


def started(pid: int) -> str | None:
    """Return an opaque text for the moment the process started, or None if it does not run.

    A zombie counts as not running: it has ended, and its parent has yet to notice.

    >>> started(os.getpid()) == started(os.getpid())
    True
    >>> started(2**22 + 1) is None
    True
    """
    if not (_PROC / "self/stat").exists():
        return _ps("lstart", pid)
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The second field is the command in parentheses and may itself contain parentheses.
    state, *fields = stat.rpartition(")")[2].split()
    if state in {"Z", "X"}:
        return None
    return f"{_boot()}:{fields[18]}"


def command_line(pid: int) -> list[str]:
    """Return the arguments the process was started with, or an empty list if it does not run.

    ``/proc/<pid>/cmdline`` is readable for everyone, unlike ``cwd`` and ``exe``, which a
    container's root without ``CAP_SYS_PTRACE`` may not read.
    """
    if not (_PROC / "self/stat").exists():
        return (_ps("command", pid) or "").split()
    try:
        raw = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [os.fsdecode(argument) for argument in raw.split(b"\0")[:-1]]


def _boot() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _ps(column: str, pid: int) -> str | None:
    # Systems without /proc, such as macOS, carry ps in a fixed place.
    found = subprocess.run(
        ["/bin/ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or None
