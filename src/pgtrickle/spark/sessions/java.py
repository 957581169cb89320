"""Find the Java runtime that Spark will use."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pgtrickle.errors import JavaMissingError

_HINT = "Install Java 17 or newer, or set JAVA_HOME to where it is."


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: the command that starts it, and its version text."""

    command: Path
    version: str


def require_java() -> Java:
    """Return the runtime that Spark's launcher would start, or refuse if it does not work.

    Spark checks JAVA_HOME first and then PATH, as this function does.
    """
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None:
        raise JavaMissingError("no Java runtime was found on PATH", hint=_HINT)
    try:
        done = subprocess.run([found, "-version"], check=True, capture_output=True, timeout=60)  # noqa: S603 - the path is the user's own setting
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissingError(
            f'the Java runtime "{found}" does not run', detail=str(error), hint=_HINT
        ) from error
    return Java(Path(found), done.stderr.decode(errors="replace"))
