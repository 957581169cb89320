"""Every error the package raises on purpose, and the code each one is known by.

Codes are stable: users grep for them and docs/errors.md is generated from this file.
A message states the fact in lower case and without a full stop; ``hint`` is a sentence that
tells the reader what to do next.  ``retry`` is what a scheduler consults, never the message.

Families: ST1xx the query, ST2xx the catalog, ST3xx the source, ST4xx the engine,
ST5xx configuration, ST6xx requests by SQL, ST7xx the lake, ST9xx a bug of ours.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Retry(Enum):
    """What a scheduler does with a refresh that failed."""

    NEVER = "never"  # the user must change something
    BACKOFF = "backoff"  # the world may heal: a lost connection, a busy lock
    REINITIALIZE = "reinitialize"  # the source changed shape: rebuild from a full refresh


class TrickleError(Exception):
    """Base of the hierarchy; never raised itself."""

    code: ClassVar[str]
    retry: ClassVar[Retry] = Retry.NEVER
    registry: ClassVar[dict[str, type[TrickleError]]] = {}

    def __init_subclass__(cls, *, code: str, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if (taken := cls.registry.setdefault(code, cls)) is not cls:
            raise TypeError(f"error code {code} already belongs to {taken.__name__}")
        cls.code = code

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        self.hint = hint
        self.sqlstate: str | None = None  # by which PostgreSQL reported it, if it did


class QuerySyntaxError(TrickleError, code="ST101"):
    """PostgreSQL or the parser rejects the text of the defining query."""


class UnsupportedQueryError(TrickleError, code="ST102"):
    """The defining query uses a construct that no delta rule covers."""


class VolatileFunctionError(TrickleError, code="ST103"):
    """The defining query calls a function whose result changes from call to call."""


class UnsupportedSourceError(TrickleError, code="ST104"):
    """The defining query reads a relation whose changes cannot be captured."""


class UndefinedObjectError(TrickleError, code="ST105"):
    """The defining query names a table, column, function or type that does not exist."""


class UnsupportedExpressionError(TrickleError, code="ST106"):
    """An expression over several tables has no faithful translation to the data plane."""


class QueryRejectedError(TrickleError, code="ST107"):
    """PostgreSQL accepts the syntax of the defining query but refuses its meaning."""


class QueryTooLargeError(TrickleError, code="ST108"):
    """The defining query is larger or nests deeper than can be handled."""


class CircularDependencyError(TrickleError, code="ST109"):
    """The defining query reads, directly or through others, the stream table it defines."""


class NotMonotoneError(TrickleError, code="ST110"):
    """A stream table that is to be in a circle has a query or a mode that rules out a fixpoint."""


class FixpointNotReachedError(TrickleError, code="ST111"):
    """The stream tables of a circle still gained rows after max_fixpoint_iterations rounds."""


class StreamTableNotFoundError(TrickleError, code="ST201"):
    """A stream table was named that the catalog does not hold."""


class NameTakenError(TrickleError, code="ST202"):
    """The name of the new stream table already belongs to a relation."""


class CatalogMissingError(TrickleError, code="ST203"):
    """The database has no pgtrickle catalog yet."""


class CatalogTooNewError(TrickleError, code="ST204"):
    """The catalog was migrated by a newer version of the package."""


class CatalogCorruptError(TrickleError, code="ST205"):
    """A migration recorded in the catalog differs from the one in the package."""


class NotOwnerError(TrickleError, code="ST206"):
    """The current role may not change this stream table."""


class DependentsExistError(TrickleError, code="ST207"):
    """Other stream tables or views read the stream table that is to be dropped."""


class NameNotUsableError(TrickleError, code="ST208"):
    """The text given as a name cannot name a stream table."""


class LeaseHeldError(TrickleError, code="ST209"):
    """Another process is refreshing this stream table."""

    retry = Retry.BACKOFF


class LeaseLostError(TrickleError, code="ST210"):
    """The lease expired and another process took the stream table over."""

    retry = Retry.BACKOFF


class StatusForbidsError(TrickleError, code="ST211"):
    """The status of the stream table does not allow the operation."""


class FuseBlownError(TrickleError, code="ST212"):
    """A source changed by more than the fuse of the stream table lets pass without asking."""


class ColumnsDifferError(TrickleError, code="ST213"):
    """The query that is to replace another needs columns that the table cannot get in place."""


class RefreshCancelledError(TrickleError, code="ST214"):
    """Someone cancelled the refresh while it was under way; nothing was changed."""

    retry = Retry.BACKOFF


class SourceNotFoundError(TrickleError, code="ST301"):
    """A source table of the stream table no longer exists."""


class SourceSchemaChangedError(TrickleError, code="ST302"):
    """A source table no longer has the columns the stream table was compiled against."""

    retry = Retry.REINITIALIZE


class PrivilegeError(TrickleError, code="ST303"):
    """The current role lacks a privilege that the operation needs."""


class ForeignCatalogError(PrivilegeError, code="ST215"):
    """The catalog belongs to another role, or holds something that others can change."""


class ReservedColumnError(TrickleError, code="ST304"):
    """A source table has a column whose name the change buffer reserves."""


class CapturePausedError(TrickleError, code="ST305"):
    """The capture of a source is paused, and the operation would have to change it."""


class MeaningChangedError(TrickleError, code="ST306"):
    """The defining query no longer means what it meant when the stream table was created."""


class TableNotSafeError(TrickleError, code="ST309"):
    """Something on a stream table would run code of others, change rows or hide some of them."""


class UntrustedTypeError(TrickleError, code="ST308"):
    """A type would run code of a role that the stream table's owner does not trust."""


class WalUnavailableError(TrickleError, code="ST320"):
    """The changes of a source cannot be captured from the write-ahead log."""


class WalMessageError(TrickleError, code="ST321"):
    """What the logical slot delivers is not a message that this version can read."""


class SlotLostError(TrickleError, code="ST322"):
    """The logical slot is gone, was read by another, or belongs to another plugin."""

    retry = Retry.REINITIALIZE


class WalGapError(TrickleError, code="ST323"):
    """The write-ahead log does not hold what capture needs of a source's change."""

    retry = Retry.REINITIALIZE

    def __init__(
        self, message: str, *, source_relid: int | None = None, detail: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.source_relid = source_relid


class ConnectionLostError(TrickleError, code="ST401"):
    """The connection to PostgreSQL broke or could not be made."""

    retry = Retry.BACKOFF


class JavaMissingError(TrickleError, code="ST402"):
    """No usable Java runtime was found for Spark."""


class SparkFailedError(TrickleError, code="ST403"):
    """Spark could not start or could not run a stage."""

    retry = Retry.BACKOFF


class StorageFullError(TrickleError, code="ST404"):
    """PostgreSQL ran out of disk space, memory or connections."""

    retry = Retry.BACKOFF


class ValueOutOfRangeError(TrickleError, code="ST405"):
    """A value exceeds what the data plane can hold exactly."""


class ContentsDivergedError(TrickleError, code="ST406"):
    """The stored rows are not those the last refresh wrote: something else changed them."""

    retry = Retry.REINITIALIZE


class DataError(TrickleError, code="ST407"):
    """Evaluating the defining query failed on the data, as it would in PostgreSQL."""


class ServerBusyError(TrickleError, code="ST408"):
    """PostgreSQL cancelled or could not serialize the work: a lock, a deadlock, a timeout."""

    retry = Retry.BACKOFF


class MemoryLimitError(TrickleError, code="ST409"):
    """Spark's driver ran out of the memory that a setting gives it."""

    retry = Retry.BACKOFF


class RefreshStalledError(TrickleError, code="ST410"):
    """Spark made no progress for too long and was stopped; nothing was changed."""

    retry = Retry.BACKOFF


class SparkSessionError(TrickleError, code="ST411"):
    """The Spark session that the caller gave cannot be used."""


class SettingError(TrickleError, code="ST501"):
    """A setting has a value outside its type or range."""


class ServerVersionError(TrickleError, code="ST502"):
    """The PostgreSQL server is older than the package supports."""


class EmbeddedServerError(TrickleError, code="ST503"):
    """The embedded PostgreSQL could not be started."""

    retry = Retry.BACKOFF


class StandbyError(TrickleError, code="ST504"):
    """The server is a standby and accepts no writes."""

    retry = Retry.BACKOFF  # until it is promoted


class DaemonMissingError(TrickleError, code="ST601"):
    """A call from SQL needs the daemon, and none serves the database."""


class RequestTimeoutError(TrickleError, code="ST602"):
    """A request was not done within pg_trickle.request_timeout, and was cancelled."""


class RequestCancelledError(TrickleError, code="ST603"):
    """The caller of a request took it back, or is gone."""


class RequestLostError(TrickleError, code="ST604"):
    """The daemon that executed a request ended before it was done."""


class RequestRefusedError(TrickleError, code="ST605"):
    """A request asks for what does not exist, or in a way that is not possible."""


class RequestQuotaError(TrickleError, code="ST606"):
    """A role has as many requests, subscriptions or watermark groups as it may."""

    retry = Retry.BACKOFF


class LakeCatalogError(TrickleError, code="ST701"):
    """The DuckLake catalog is missing, or of a kind that cannot be written."""


class LakeWriteError(TrickleError, code="ST702"):
    """A file or a snapshot of the lake could not be written."""

    retry = Retry.BACKOFF


class LakeSinkError(TrickleError, code="ST703"):
    """The sink of a stream table is not what the operation needs."""


class LakeReadError(TrickleError, code="ST704"):
    """A lake table cannot be read into Spark, or not exactly."""


class LakeSourceError(TrickleError, code="ST705"):
    """A lake table cannot be followed as it is, or is not attached."""


class LakeSnapshotExpiredError(TrickleError, code="ST706"):
    """The lake has forgotten the snapshot from which its changes were to be read."""


class LakeUnreachableError(TrickleError, code="ST707"):
    """The database that holds the catalog of the lake cannot be reached."""

    retry = Retry.BACKOFF


class LakePathError(TrickleError, code="ST708"):
    """A catalog of the lake names a file outside the directory that is on record for it."""


class InternalError(TrickleError, code="ST901"):
    """The package broke one of its own invariants."""
