"""The embedded server as the rest of the package sees it: start, a connection string, stop.

Several processes of a project share one server: the first starts it, the last stops it.
"""

from __future__ import annotations

import atexit
import logging
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from psycopg.conninfo import make_conninfo

from pgtrickle.embedded import postmaster, users
from pgtrickle.embedded.access import SUPERUSER
from pgtrickle.embedded.binaries import find_binaries
from pgtrickle.embedded.cluster import make_data_directory
from pgtrickle.embedded.home import Base, Home, open_base, open_home
from pgtrickle.embedded.lock import exclusive_lock
from pgtrickle.embedded.postmaster import Postmaster

logger = logging.getLogger(__name__)


class EmbeddedServer:
    """One use of a project's server; leaving the last use stops it.

    A process that ends without ``stop`` leaves through ``atexit``.  One that is killed is
    noticed by the next process that starts or stops the server.
    """

    def __init__(self, home: Home, base: Base, user: users.User, running: Postmaster) -> None:
        self.directory = home.directory
        self.data_directory = base.data
        self.log = base.log
        self.pid = running.pid
        self.dsn = make_conninfo(
            host=str(running.socket), port=postmaster.PORT, user=SUPERUSER, dbname="postgres"
        )
        self._home = home
        self._base = base
        self._user = user
        self._left = False
        atexit.register(self.stop)

    def stop(self) -> None:
        """Leave the server, and stop it if no other process uses it; may be called twice."""
        # A forked child inherits this object but has never joined: it must not leave for us.
        if self._left or self._user.pid != os.getpid():
            return
        self._left = True
        atexit.unregister(self.stop)
        with exclusive_lock(self._home.lock):
            if not users.leave(self._home.users, self._user):
                postmaster.stop(self._base)
                logger.info("embedded server stopped", extra={"path": str(self.directory)})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def start_embedded(directory: Path | None = None) -> EmbeddedServer:
    """Join the server kept in ``directory``, starting it first if it does not run.

    The default is ``PGTRICKLE_HOME``, and without that ``.pgtrickle`` in the current directory.
    A server that crashed is started again and recovers.  Raises ``EmbeddedServerError``.
    """
    home = open_home(directory)
    with exclusive_lock(home.lock):
        base = open_base(home)
        # Joining first: whatever interrupts the start, the server is never left without a user.
        user = users.join(home.users)
        try:
            running = _find_or_launch(base)
        except BaseException:
            users.leave(home.users, user)
            raise
    return EmbeddedServer(home, base, user, running)


def _find_or_launch(base: Base) -> Postmaster:
    began = time.monotonic()
    found = postmaster.find_postmaster(base)
    if found is not None and (ready := postmaster.await_status(base, found)):
        return ready
    binaries = find_binaries(base.account)
    make_data_directory(base, binaries)
    launched = postmaster.launch(base, binaries)
    extra = {"path": str(base.directory), "seconds": time.monotonic() - began}
    logger.info("embedded server started", extra=extra)
    return launched
