"""Authentication at Spark's ports: only clients with the secret of this context.

The driver listens for its executors, with a local master too, and without authentication every
user of the machine could stop them.  With a local master Spark creates its own secret, which
never leaves the JVM.  On a standalone cluster master, workers and driver share one, which the user
gives in a file: it reaches the JVM through pyspark's own connection, never on a command line.
YARN and Kubernetes distribute secrets themselves, if Spark's own settings ask for it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from pgtrickle.errors import SettingError
from pgtrickle.spark.sessions.profiles import is_local

SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of a setting

_AUTHENTICATED = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
}
_SHORTEST = 16  # characters
_LONGEST = 4096


def authentication(master: str) -> Mapping[str, str]:
    """Return the settings, none of them secret, with which a context refuses other clients."""
    if is_local(master):
        # Only this JVM takes part: there is no older one that needs a fallback.
        return _AUTHENTICATED | {"spark.network.crypto.saslFallback": "false"}
    return {}


def cluster_authentication(master: str, file: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the authentication for a standalone cluster: public and secret settings."""
    if not file or not is_standalone(master):
        return {}, {}
    return _AUTHENTICATED, {SECRET: _read(Path(file))}


def is_standalone(master: str) -> bool:
    """Tell whether Spark's own cluster manager is used.

    >>> is_standalone("spark://host:7077"), is_standalone("local[2]"), is_standalone("yarn")
    (True, False, False)
    """
    return master.startswith("spark://")


def _read(file: Path) -> str:
    """Return the secret of a file that no other user can read."""
    try:
        with file.open("rb") as opened:
            found = os.fstat(opened.fileno())
            text = opened.read(_LONGEST + 1)
    except OSError as error:
        raise _refuse(f"the file of Spark's secret could not be read: {error.strerror}") from error
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO) or found.st_uid not in (os.geteuid(), 0):
        raise _refuse("other users can read the file of Spark's secret")
    secret = text.strip()
    if not _SHORTEST <= len(secret) <= _LONGEST or not secret.isascii():
        raise _refuse(f"Spark's secret must have {_SHORTEST} to {_LONGEST} ASCII characters")
    return secret.decode()


def _refuse(fact: str) -> SettingError:
    return SettingError(
        fact,
        hint="Write the cluster's spark.authenticate.secret into your own file"
        " with mode 0600, and name it in PGTRICKLE_SPARK_AUTH_SECRET_FILE.",
    )
