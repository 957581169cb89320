"""A wire between relay and broker that can be cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_AT_ONCE = 65_536
_CONNECT_SECONDS = 5.0


class Wire:
    """Hands on what comes to one port to another, until somebody cuts all connections."""

    def __init__(self, port: int, to: int) -> None:
        self.port, self._to = port, to
        self._listener = socket.create_server(("127.0.0.1", port))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                there = socket.create_connection(("127.0.0.1", self._to), _CONNECT_SECONDS)
            except OSError:
                here.close()
                continue
            there.settimeout(None)
            with self._lock:
                self._open |= {here, there}
            for one, other in ((here, there), (there, here)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(_AT_ONCE):
                other.sendall(data)
        self._end({one, other})

    def _end(self, ended: set[socket.socket]) -> None:
        with self._lock:
            self._open -= ended
        for one in ended:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def cut(self) -> None:
        """Cut every connection, in the middle of what it says."""
        with self._lock:
            ended = set(self._open)
        self._end(ended)

    def close(self) -> None:
        """Take no more connections, and cut those that there are."""
        self._listener.close()
        self.cut()
