"""Every error that the package raises on purpose, with its code.

Codes are stable: users grep for them and docs/errors.md is generated from this file.
A message states the fact in lower case and without a full stop; ``hint`` is a sentence that
tells the reader what to do next.  The scheduler decides by ``retry``, never by the message.

Numbers: ST1xx the query, ST2xx the catalog, ST3xx the source, ST4xx the engine,
ST5xx configuration, ST6xx requests by SQL, ST7xx the lake, ST8xx change streams, ST9xx a bug of
ours.

Each is of one family (``QueryError``, ``LakeError``, ...), which has no code and is never raised
itself: a program catches it to handle all of its members.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar


class Retry(Enum):
    """The scheduler's reaction to a failed refresh."""

    NEVER = "never"  # the user must change something
    BACKOFF = "backoff"  # temporary: a lost connection, a busy lock
    REINITIALIZE = "reinitialize"  # the source changed shape: rebuild from a full refresh


class TrickleError(Exception):
    """Base of the hierarchy; never raised itself."""

    code: ClassVar[str]
    family: ClassVar[type[TrickleError]]
    retry: ClassVar[Retry] = Retry.NEVER
    registry: ClassVar[dict[str, type[TrickleError]]] = {}
    families: ClassVar[list[type[TrickleError]]] = []

    def __init_subclass__(cls, *, code: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if code is None:
            if cls.__bases__ != (TrickleError,):
                raise TypeError(f"{cls.__name__} has no code, and is no family")
            cls.families.append(cls)
            return
        own = [one for one in cls.families if issubclass(cls, one)]
        if len(own) != 1:
            raise TypeError(f"{cls.__name__} must be of one family, not of {len(own)}")
        if (taken := cls.registry.setdefault(code, cls)) is not cls:
            raise TypeError(f"error code {code} already belongs to {taken.__name__}")
        cls.code, cls.family = code, own[0]

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.detail = detail
        self.hint = hint
        self.sqlstate: str | None = None  # of the PostgreSQL error, if it was one
        self.trace_id: str | None = None  # of the refresh that it ended, if that was traced
        self.suspended = ""  # the stream table that the scheduler suspended because of it


class QueryError(TrickleError):
    """The defining query cannot be maintained, or not in the requested mode."""


class CatalogError(TrickleError):
    """The catalog is missing or unusable, or a stream table in it does not allow the operation."""


class AccessError(TrickleError):
    """The role may not do this, or would run code of a role that it does not trust."""


class CaptureError(TrickleError):
    """The changes of a source are not captured, or its columns changed."""


class RefreshError(TrickleError):
    """A refresh failed because of the data, the contents or the lease."""


class ServerError(TrickleError):
    """PostgreSQL cannot be reached, or cannot do its part now."""


class SparkError(TrickleError):
    """Spark cannot start, or cannot do its part."""


class ConfigurationError(TrickleError):
    """A setting or an argument has a value that it cannot have."""


class RequestError(TrickleError):
    """The daemon did not complete a request."""


class LakeError(TrickleError):
    """The lake cannot be read, written or reached."""


class StreamError(TrickleError):
    """The changes of a stream table cannot be followed, or not from there."""


class BugError(TrickleError):
    """The package is wrong: please report it."""


class QuerySyntaxError(QueryError, code="ST101"):
    """PostgreSQL or the parser rejects the text of the defining query."""


class UnsupportedQueryError(QueryError, code="ST102"):
    """The defining query uses a construct that no delta rule covers."""


class VolatileFunctionError(QueryError, code="ST103"):
    """The defining query calls a function whose result changes from call to call."""


class UnsupportedSourceError(QueryError, code="ST104"):
    """The defining query reads a relation whose changes cannot be captured."""


class UndefinedObjectError(QueryError, code="ST105"):
    """The defining query names a table, column, function or type that does not exist."""


class UnsupportedExpressionError(QueryError, code="ST106"):
    """An expression of the defining query cannot be written down again, or not for an engine."""


class QueryRejectedError(QueryError, code="ST107"):
    """PostgreSQL accepts the syntax of the defining query but refuses its meaning."""


class QueryTooLargeError(QueryError, code="ST108"):
    """The defining query is larger or nests deeper than can be handled."""


class CircularDependencyError(QueryError, code="ST109"):
    """The defining query reads, directly or through others, the stream table it defines."""


class NotMonotoneError(QueryError, code="ST110"):
    """A stream table of a circle has a query or a mode that rules out a fixpoint."""


class FixpointNotReachedError(RefreshError, code="ST111"):
    """The stream tables of a circle still gained rows after max_fixpoint_iterations rounds."""


class CompileTimeoutError(QueryError, code="ST112"):
    """The defining query takes longer to compile than compile_timeout_ms allows."""

    retry = Retry.BACKOFF  # the machine may have been busy


class StreamTableNotFoundError(CatalogError, code="ST201"):
    """The catalog has no stream table of the given name."""


class NameTakenError(CatalogError, code="ST202"):
    """The name of the new stream table already belongs to a relation."""


class CatalogMissingError(CatalogError, code="ST203"):
    """The database has no pgtrickle catalog yet."""


class CatalogTooNewError(CatalogError, code="ST204"):
    """The catalog was migrated by a newer version of the package."""


class CatalogCorruptError(CatalogError, code="ST205"):
    """A migration recorded in the catalog differs from the one in the package."""


class NotOwnerError(AccessError, code="ST206"):
    """The current role may not change this stream table."""


class DependentsExistError(CatalogError, code="ST207"):
    """Other stream tables or views read the stream table that would be dropped."""


class NameNotUsableError(CatalogError, code="ST208"):
    """The text given as a name cannot name a stream table."""


class LeaseHeldError(RefreshError, code="ST209"):
    """Another process is refreshing this stream table."""

    retry = Retry.BACKOFF


class LeaseLostError(RefreshError, code="ST210"):
    """Another process took over the expired lease, or the catalog was migrated meanwhile."""

    retry = Retry.BACKOFF


class StatusForbidsError(CatalogError, code="ST211"):
    """The status of the stream table does not allow the operation."""


class FuseBlownError(RefreshError, code="ST212"):
    """More rows of a source changed than the fuse of the stream table allows."""


class ColumnsDifferError(CatalogError, code="ST213"):
    """The new query needs columns that the existing table cannot be given."""


class RefreshCancelledError(RefreshError, code="ST214"):
    """The refresh was cancelled while it was running; nothing was changed."""

    retry = Retry.BACKOFF


class CatalogOutdatedError(CatalogError, code="ST216"):
    """The catalog is of an older version than the package."""


class SnapshotExistsError(CatalogError, code="ST217"):
    """The name of the new snapshot belongs to an existing table."""


class SnapshotNotFoundError(CatalogError, code="ST218"):
    """No snapshot of the stream table has this name, or its table was dropped."""


class SnapshotMismatchError(CatalogError, code="ST219"):
    """The snapshot is of another query, or of another version's form of rows or state."""


class RestoreRefusedError(CatalogError, code="ST220"):
    """The stream table cannot be restored alone, or not in its refresh mode."""


class LakeSnapshotRefusedError(CatalogError, code="ST221"):
    """The copy in the lake cannot stand in for the rows of a snapshot, or not in this statement."""


class LakeSnapshotLostError(CatalogError, code="ST222"):
    """The lake no longer holds the rows of a snapshot as they were."""


class DumpDamagedError(CatalogError, code="ST223"):
    """The file is no dump of definitions, or a part of it is missing or was changed."""


class DumpTooNewError(CatalogError, code="ST224"):
    """The dump was written in a form that this version does not know."""


class ShadowNotFoundError(CatalogError, code="ST225"):
    """The stream table has no shadow build that has not ended."""


class ShadowRefusedError(CatalogError, code="ST226"):
    """The stream table cannot have a shadow build, or not do this while it has one."""


class ShadowNotConvergingError(RefreshError, code="ST227"):
    """The shadow falls behind the changes; it was dropped, and the stream table is as it was."""


class DumpNotRestorableError(CatalogError, code="ST228"):
    """Something that a dump needs is missing in the database; nothing was changed."""


class DefinitionDiffersError(CatalogError, code="ST229"):
    """Something in the dump exists with another definition; nothing was changed."""


class SourceNotFoundError(CaptureError, code="ST301"):
    """A source table of the stream table no longer exists."""


class SourceSchemaChangedError(CaptureError, code="ST302"):
    """A source table no longer has the columns that the stream table was compiled for."""

    retry = Retry.REINITIALIZE


class PrivilegeError(AccessError, code="ST303"):
    """The current role lacks a privilege that the operation needs."""


class ForeignCatalogError(PrivilegeError, code="ST215"):
    """The catalog belongs to another role, or contains objects that other roles can change."""


class ReservedColumnError(CaptureError, code="ST304"):
    """A source table has a column whose name the change buffer reserves."""


class CapturePausedError(CaptureError, code="ST305"):
    """The capture of a source is paused, and the operation would have to change it."""


class MeaningChangedError(QueryError, code="ST306"):
    """The defining query no longer means what it meant when the stream table was created."""


class TableNotSafeError(AccessError, code="ST309"):
    """A trigger, rule or policy of a stream table would run foreign code or affect its rows."""


class UntrustedTypeError(AccessError, code="ST308"):
    """A type would run code of a role that the stream table's owner does not trust."""


class WalUnavailableError(CaptureError, code="ST320"):
    """The changes of a source cannot be captured from the write-ahead log."""


class WalMessageError(CaptureError, code="ST321"):
    """The logical slot delivers a message that this version cannot read."""


class SlotLostError(CaptureError, code="ST322"):
    """The logical slot is gone, was read by another client, or belongs to another plugin."""

    retry = Retry.REINITIALIZE


class WalGapError(CaptureError, code="ST323"):
    """The write-ahead log lacks parts of a change that capture needs."""

    retry = Retry.REINITIALIZE

    def __init__(
        self, message: str, *, source_relid: int | None = None, detail: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.source_relid = source_relid


class ConnectionLostError(ServerError, code="ST401"):
    """The connection to PostgreSQL broke or could not be made."""

    retry = Retry.BACKOFF


class JavaMissingError(SparkError, code="ST402"):
    """No usable Java runtime was found for Spark."""


class SparkFailedError(SparkError, code="ST403"):
    """Spark could not start or could not run a stage."""

    retry = Retry.BACKOFF


class StorageFullError(ServerError, code="ST404"):
    """PostgreSQL ran out of disk space, memory or connections."""

    retry = Retry.BACKOFF


class ValueOutOfRangeError(RefreshError, code="ST405"):
    """A value cannot be represented exactly in the data plane."""


class ContentsDivergedError(RefreshError, code="ST406"):
    """The stored rows are not those of the last refresh: another writer changed them."""

    retry = Retry.REINITIALIZE


class DataError(RefreshError, code="ST407"):
    """Evaluating the defining query failed on the data, as it would in PostgreSQL."""


class ServerBusyError(ServerError, code="ST408"):
    """PostgreSQL cancelled or could not serialize the work: a lock, a deadlock, a timeout."""

    retry = Retry.BACKOFF


class MemoryLimitError(SparkError, code="ST409"):
    """Spark's driver exceeded the memory that a setting gives it."""

    retry = Retry.BACKOFF


class RefreshStalledError(SparkError, code="ST410"):
    """Spark made no progress for too long and was stopped; nothing was changed."""

    retry = Retry.BACKOFF


class SparkSessionError(SparkError, code="ST411"):
    """The given Spark session cannot be used."""


class StatementTooLargeError(RefreshError, code="ST420"):
    """A statement changes more rows than an IMMEDIATE stream table may follow."""


class SettingError(ConfigurationError, code="ST501"):
    """A setting has a value outside its type or range."""


class ServerVersionError(ServerError, code="ST502"):
    """The PostgreSQL server is older than the oldest supported version."""


class EmbeddedServerError(ServerError, code="ST503"):
    """The embedded PostgreSQL could not be started."""

    retry = Retry.BACKOFF


class StandbyError(ServerError, code="ST504"):
    """The server is a standby and accepts no writes."""

    retry = Retry.BACKOFF  # until the standby is promoted


class SlaTooSmallError(ConfigurationError, code="ST505"):
    """A service level is shorter than refreshes were measured to allow."""


class ProjectFileError(ConfigurationError, code="ST506"):
    """A file of a project is damaged, too large, or says something that nobody understands."""


class ProjectRefusedError(ConfigurationError, code="ST507"):
    """A project cannot be applied to this database; nothing was changed."""


class MissingExtraError(ConfigurationError, code="ST508"):
    """The work needs a part of the package that is not installed."""


class DaemonMissingError(RequestError, code="ST601"):
    """A call from SQL needs a daemon, and none serves the database."""


class RequestTimeoutError(RequestError, code="ST602"):
    """A request did not finish within pg_trickle.request_timeout, and was cancelled."""


class RequestCancelledError(RequestError, code="ST603"):
    """The caller of a request cancelled it, or disconnected."""


class RequestLostError(RequestError, code="ST604"):
    """The daemon ended before the request was finished."""


class RequestRefusedError(RequestError, code="ST605"):
    """A request names a missing object, or cannot be made in this way."""


class RequestQuotaError(RequestError, code="ST606"):
    """A role has reached its limit of requests, subscriptions or watermark groups."""

    retry = Retry.BACKOFF


class LakeCatalogError(LakeError, code="ST701"):
    """The DuckLake catalog is missing, or cannot be written safely."""


class LakeWriteError(LakeError, code="ST702"):
    """A file or a snapshot of the lake could not be written."""

    retry = Retry.BACKOFF


class LakeSinkError(LakeError, code="ST703"):
    """The sink of a stream table does not allow the operation."""


class LakeReadError(LakeError, code="ST704"):
    """A lake table cannot be read into Spark exactly."""


class LakeSourceError(LakeError, code="ST705"):
    """A lake table cannot be followed in its present form, or is not attached."""


class LakeSnapshotExpiredError(LakeError, code="ST706"):
    """The snapshot from which changes must be read has expired in the lake."""


class LakeUnreachableError(LakeError, code="ST707"):
    """The database that holds the catalog of the lake cannot be reached."""

    retry = Retry.BACKOFF


class LakePathError(LakeError, code="ST708"):
    """The catalog of the lake names a file outside the directory on record."""


class LakeShapeError(LakeError, code="ST709"):
    """Rows do not fit the columns of their lake table."""


class LakeFilesUnreachableError(LakeReadError, code="ST710"):
    """A file of the lake cannot be read, because its storage does not provide it."""

    retry = Retry.BACKOFF


class OutboxMissingError(StreamError, code="ST801"):
    """The stream table has no outbox."""


class ChangesGoneError(StreamError, code="ST802"):
    """The outbox no longer holds, or never held, the entries that were asked for."""


class ConsumerGroupError(StreamError, code="ST803"):
    """There is no such consumer group, it belongs to another role, or its name is taken."""


class OffsetRefusedError(StreamError, code="ST804"):
    """A consumer commits entries that are not leased to it, or not any more."""


class OutboxValueError(StreamError, code="ST805"):
    """A row is too large for the JSON of its outbox; the refresh changes nothing."""


class PipelineError(StreamError, code="ST820"):
    """The definition of a relay pipeline cannot be used."""


class PipelineMissingError(StreamError, code="ST821"):
    """There is no such relay pipeline."""


class SinkUnavailableError(StreamError, code="ST822"):
    """The receiver of a relay pipeline cannot be reached, or cannot take messages now."""

    retry = Retry.BACKOFF
    delivered = 0  # messages that were sent and arrived before the first that did not


class SinkSetupError(StreamError, code="ST823"):
    """The receiver of a relay pipeline refuses everything: credentials, topic, table or rights."""

    retry = Retry.BACKOFF


class MessageRefusedError(StreamError, code="ST824"):
    """The receiver of a relay pipeline refuses one message: it is too large, or not valid there."""

    delivered = 0  # messages that were sent with it and arrived before it


class EnvelopeError(StreamError, code="ST825"):
    """A message is not of a relay, or of a version that this one does not read."""


class RelayHeldError(StreamError, code="ST826"):
    """Another relay delivers the messages of this pipeline."""

    retry = Retry.BACKOFF


class SecretMissingError(StreamError, code="ST827"):
    """A secret that the definition of a relay pipeline names is not there, or may not be used."""


class DeadLettersFullError(StreamError, code="ST828"):
    """A relay pipeline has as many dead letters as it may have, and stops before the next one."""

    retry = Retry.BACKOFF


class InboxError(StreamError, code="ST840"):
    """An inbox cannot be made or changed like this."""


class InboxMissingError(StreamError, code="ST841"):
    """There is no such inbox, or the role may not read it."""


class InboxAlteredError(StreamError, code="ST842"):
    """The table of an inbox is gone, lacks columns, or belongs to somebody else."""


class OriginUnavailableError(StreamError, code="ST843"):
    """The broker of an inbound pipeline cannot be reached, or does not answer now."""

    retry = Retry.BACKOFF


class OriginSetupError(StreamError, code="ST844"):
    """The broker of an inbound pipeline refuses everything: credentials, topic, queue or rights."""

    retry = Retry.BACKOFF


class MessageUnreadableError(StreamError, code="ST845"):
    """A message of an inbound pipeline cannot be read: it is no JSON, or lacks its id."""


class PlaceLostError(StreamError, code="ST846"):
    """The broker of an inbound pipeline no longer has the messages that come next."""


class InternalError(BugError, code="ST901"):
    """The package broke one of its own invariants."""
