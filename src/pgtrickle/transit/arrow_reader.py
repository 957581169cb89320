"""Small reads: PostgreSQL to Arrow in the driver, all under one exported snapshot.

Connections outlive a refresh, because opening one costs more than a read.  A failed connection is
closed and one that turns out to be dead when it is taken is replaced transparently.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from adbc_driver_manager import dbapi as adbc
from adbc_driver_manager._reader import AdbcRecordBatchReader
from adbc_driver_postgresql import dbapi as postgres

from pgtrickle.errors import InternalError, TrickleError
from pgtrickle.model.text.names import quote_literal
from pgtrickle.model.text.search_path import OWN_PATH
from pgtrickle.session import is_pooled, under_own_path
from pgtrickle.transit.carriers import Carrier
from pgtrickle.transit.conform import conform
from pgtrickle.transit.fixed_settings import FIXED_SETTINGS
from pgtrickle.transit.pg_errors import error_for

_SNAPSHOT_ID = re.compile(r"[0-9A-F]+-[0-9A-F]+-[0-9]+")

# The readers' own sessions also need the settings of the pool's sessions.
_READERS_SETTINGS = (
    f"{FIXED_SETTINGS}, pg_catalog.set_config('search_path', {quote_literal(OWN_PATH)}, true),"
    " pg_catalog.set_config('row_security', 'off', true)"
)


class ReadTooLargeError(Exception):
    """A read returned more than its caller's limit."""


@dataclass(frozen=True, slots=True)
class SmallRead:
    """One query and the carriers of its columns, in order."""

    sql: str
    carriers: tuple[Carrier, ...]


class ReadConnections:
    """A pool of idle ADBC connections to one database; safe to share between threads."""

    def __init__(self, dsn: str, *, idle_limit: int = 8) -> None:
        self._dsn = dsn
        self._idle_limit = idle_limit
        self._idle: list[Any] = []
        self._lock = threading.Lock()
        self._pooled = False  # the server refuses session options

    def take(self, snapshot: str) -> Any:
        """Return a connection inside a read-only transaction that sees ``snapshot``."""
        while (connection := self._pop()) is not None:
            try:
                _begin(connection, snapshot)
            except adbc.Error as error:
                self.discard(connection)
                if not _connection_is_gone(error):
                    raise error_for(error.sqlstate, str(error), doing="use the snapshot") from error
            else:
                return connection
        connection = self._open()
        try:
            _begin(connection, snapshot)
        except adbc.Error as error:
            self.discard(connection)
            raise error_for(error.sqlstate, str(error), doing="use the snapshot") from error
        return connection

    def give_back(self, connection: Any) -> None:
        """End the transaction and keep the connection for the next refresh."""
        try:
            connection.rollback()
        except adbc.Error:
            self.discard(connection)
            return
        with self._lock:
            if len(self._idle) < self._idle_limit:
                self._idle.append(connection)
                return
        self.discard(connection)

    def discard(self, connection: Any) -> None:
        """Close a connection that may be broken."""
        with contextlib.suppress(adbc.Error):
            connection.close()

    def close(self) -> None:
        """Close every idle connection."""
        while (connection := self._pop()) is not None:
            self.discard(connection)

    def _pop(self) -> Any:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _open(self) -> Any:
        try:
            return self._connect()
        except adbc.Error as error:
            raise error_for(error.sqlstate, str(error), doing="be reached") from error

    def _connect(self) -> Any:
        """Connect under our own path, because the driver reads types before we can set it.

        A pooler may refuse that, because it shares sessions.
        """
        if self._pooled:
            return postgres.connect(self._dsn)
        try:
            return postgres.connect(under_own_path(self._dsn))
        except adbc.Error:
            self._pooled = is_pooled(self._dsn)
            if not self._pooled:
                raise
        return postgres.connect(self._dsn)


class SnapshotReader:
    """The reads of one refresh, all under the exported snapshot.

    Leave the ``with`` block as soon as the last read is done: until then the snapshot holds back
    vacuum.
    """

    def __init__(self, connections: ReadConnections, snapshot: str, *, width: int = 4) -> None:
        if not _SNAPSHOT_ID.fullmatch(snapshot):
            raise ValueError(f"not the name of an exported snapshot: {snapshot!r}")
        self._connections = connections
        self._snapshot = snapshot
        self._width = width
        self._free: list[Any] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            free, self._free = self._free, []
        for connection in free:
            self._connections.give_back(connection)

    def read(self, sql: str, carriers: Sequence[Carrier], limit: int | None = None) -> pa.Table:
        """Run one query and return its rows, each column in its carrier's form.

        Raises ReadTooLargeError as soon as more than ``limit`` bytes have arrived.
        """
        with self._connection() as connection:
            return conform(_fetch(connection, sql, limit), carriers)

    def read_all(
        self, reads: Mapping[str, SmallRead], limit: int | None = None
    ) -> dict[str, pa.Table | None]:
        """Run several queries in parallel over at most ``width`` connections.

        A query that returns more than ``limit`` bytes is given up: its result is None.
        """

        def one(read: SmallRead) -> pa.Table | None:
            try:
                return self.read(read.sql, read.carriers, limit)
            except ReadTooLargeError:
                return None

        if len(reads) <= 1 or self._width == 1:
            return {name: one(read) for name, read in reads.items()}
        with ThreadPoolExecutor(min(self._width, len(reads)), "pgtrickle-read") as threads:
            running = {name: threads.submit(one, read) for name, read in reads.items()}
            return {name: future.result() for name, future in running.items()}

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        with self._lock:
            connection = self._free.pop() if self._free else None
        if connection is None:
            connection = self._connections.take(self._snapshot)
        try:
            yield connection
        except BaseException:
            # The transaction is aborted or the connection is lost: it cannot be used again.
            self._connections.discard(connection)
            raise
        with self._lock:
            self._free.append(connection)


# Large enough for few calls, small enough to stay in the cache: 2 MiB took 15 % less time on both
# sides of the connection than the driver's own 16 MiB.
_STREAM_BATCH_BYTES = 2 * 2**20


def stream(
    dsn: str, snapshot: str, sql: str, *, first: str = ""
) -> Generator[pa.RecordBatch, None, None]:
    """Run one query on its own connection and yield its rows batch by batch.

    ``first`` is another query, run before it for its effect on the transaction.
    """
    connections = ReadConnections(dsn, idle_limit=0)
    connection = connections.take(snapshot)
    try:
        if first:
            _fetch(connection, first, None)
        with connection.cursor() as cursor:
            hint = {"adbc.postgresql.batch_size_hint_bytes": str(_STREAM_BATCH_BYTES)}
            cursor.adbc_statement.set_options(**hint)
            cursor.execute(sql)
            # The public fetch_record_batch() loses the SQLSTATE of an error between two batches;
            # the driver's own reader, which fetch_arrow_table() uses, keeps it.
            handle = cursor.fetch_arrow()
            yield from AdbcRecordBatchReader._import_from_c(handle.address)  # noqa: SLF001
    except adbc.Error as error:
        raise _translated(connection, error) from error
    finally:
        connections.discard(connection)


def _begin(connection: Any, snapshot: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        cursor.execute(_READERS_SETTINGS)
        cursor.fetch_arrow_table()


def _fetch(connection: Any, sql: str, limit: int | None) -> pa.Table:
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            if limit is None:
                return cursor.fetch_arrow_table()
            handle = cursor.fetch_arrow()  # must live until it is imported: see stream()
            reader = AdbcRecordBatchReader._import_from_c(handle.address)  # noqa: SLF001
            return pa.Table.from_batches(_up_to(limit, reader), reader.schema)
    except adbc.Error as error:
        raise _translated(connection, error) from error


def _up_to(limit: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > limit:
            raise ReadTooLargeError
        yield batch


def _translated(connection: Any, error: adbc.Error) -> TrickleError:
    if error.sqlstate or _is_dead(connection):
        context = next((str(v) for key, v in error.details if key == "PG_DIAG_CONTEXT"), None)
        return error_for(error.sqlstate, str(error), doing="read", context=context)
    return InternalError("the driver could not decode what it read", detail=str(error))


def _is_dead(connection: Any) -> bool:
    try:
        connection.rollback()
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetch_arrow_table()
    except adbc.Error:
        return True
    return False


def _connection_is_gone(error: adbc.Error) -> bool:
    return not error.sqlstate or error.sqlstate[:2] in ("08", "57")
