"""The composition root: settings to adapters to the client that users hold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool

from pgtrickle.catalog.access.guest import GuestSession
from pgtrickle.catalog.access.look import Found, look
from pgtrickle.catalog.access.standing import Standing
from pgtrickle.catalog.migrate import check_tables, migrate
from pgtrickle.client.guest import Guest
from pgtrickle.client.trickle import Trickle
from pgtrickle.errors import (
    CatalogMissingError,
    CatalogOutdatedError,
    SettingError,
    TrickleError,
)
from pgtrickle.model.lost_servers import noticing_lost_server
from pgtrickle.service.configuration.live import LiveSettings
from pgtrickle.service.lazy import Late
from pgtrickle.service.remembered import Remembered
from pgtrickle.service.runtime import (
    Runtime,
    connections_for,
    translated_errors,
    withheld_words,
)
from pgtrickle.session import CallerSession, Session
from pgtrickle.settings import (
    Settings,
    find_unknown_variables,
    load_settings,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pgtrickle.ports import Engine
    from pgtrickle.service.insight.checkup.check import Check
    from pgtrickle.transit.arrow_reader import ReadConnections


logger = logging.getLogger(__name__)

_RECONNECT_SECONDS = 5.0
_LOCK_TIMEOUT = "5s"  # unless a transaction says otherwise: nothing of ours waits for ever


def connect(
    dsn: str | None = None,
    *,
    directory: Path | None = None,
    engine: Engine | None = None,
    settings: Settings | None = None,
    spark: SparkSession | None = None,
    init: bool | None = None,
) -> Trickle:
    """Open pgtrickle on a database; look at its catalog, and change nothing.

    Where there is no catalog, or an older one, verbs that need it raise ST203 or ST216: make it
    with ``init()``, upgrade it with ``migrate()``, or connect with ``init=True``, which does
    either.  A role that does not own the catalog, and was given access to it, is a guest: it looks,
    and asks the daemon for the rest.

    Without ``dsn`` the environment variable ``PGTRICKLE_DSN`` decides; without that either, a
    private PostgreSQL starts in ``directory`` (by default ``.pgtrickle`` here) and stops with
    its last user.  Its catalog needs no step; with ``init=False`` no server is made where there is
    none.

    ``spark`` is a session of the caller's, classic or Connect, beside which the work is done;
    without it one that this process has already is used, and without any Spark starts at first use.
    It is left as it was, and goes on after ``close``.
    """
    fixed = settings is not None
    settings = replace(settings, dsn=dsn or settings.dsn) if settings else load_settings(dsn=dsn)
    with ExitStack() as stack:
        address, with_catalog = settings.dsn, bool(init)
        if not address:
            from pgtrickle.embedded.home import check_home
            from pgtrickle.embedded.server import start_embedded

            check_home(directory, init=init is not False)
            address = stack.enter_context(start_embedded(directory)).dsn
            with_catalog = True
        found, applied = _look(address, settings, init=with_catalog)
        if not fixed:
            settings = load_settings(stored=found.stored, dsn=dsn)
        if init is not False:  # a command tells it otherwise
            for unknown in [*find_unknown_variables(), *found.unknown]:
                logger.warning(str(unknown))
        watched = make_conninfo(**noticing_lost_server(conninfo_to_dict(found.dsn)))
        standing, schema = found.standing, found.users_schema or "public"
        kind, trusting = _kind_of_session(standing, settings)
        adapters = _Adapters(watched, settings, engine, found.users_path, spark, kind)
        runtime = stack.enter_context(adapters).runtime
        if not fixed:

            def load(stored: Mapping[str, str]) -> Settings:
                return load_settings(stored=stored, dsn=dsn)

            runtime.live = LiveSettings(load, found.stored, not standing.works_as_owner)
        if not standing.works_as_owner:
            with runtime.connection() as connection:
                check_tables(connection)
            return Guest(found.dsn, runtime, stack.pop_all(), schema, standing, trusting)
        runtime.gap = found.find_gap()
        if settings.tells_others:
            from pgtrickle.service.observing.open import open_observers

            runtime.observers = open_observers(settings, found.dsn, runtime.database)
            for observer in runtime.observers:
                stack.callback(observer.close)
        return Trickle(found.dsn, runtime, stack.pop_all(), schema=schema, applied=applied)


def _look(dsn: str, settings: Settings, *, init: bool) -> tuple[Found, list[str]]:
    """Look at a database and, with ``init``, bring its catalog up to date first.

    Fails at once and with the server's own reason, where a pool would go on trying.
    """
    timeout = int(settings.connection_timeout_seconds)
    with withheld_words(dsn), translated_errors():
        found = look(dsn, timeout)
        if not init or found.find_gap() is None:
            return found, []
        with Session.open(found.dsn, connect_timeout=timeout) as session:
            applied = migrate(session)
        return look(found.dsn, timeout), applied


def _kind_of_session(standing: Standing, settings: Settings) -> tuple[type[Session], bool]:
    """Return the kind of session for a role, and whether the role trusts code of the owner."""
    if standing.works_as_owner:
        return Session, True
    if standing.trusts_owner(settings.trusted_owner):
        return CallerSession, True

    class Guests(GuestSession):
        pass

    Guests.standing = standing
    return Guests, False


def diagnose(
    dsn: str | None = None,
    connect: Callable[..., AbstractContextManager[Trickle]] = connect,
) -> list[Check]:
    """Check the machine and, if it can be reached, the server and the catalog on it."""
    from pgtrickle.service.insight.doctor import check_machine, unreached

    try:
        with connect(dsn, init=False) as trickle:
            return trickle.doctor()
    except (CatalogMissingError, CatalogOutdatedError) as error:
        return [*check_machine(load_settings()), *_check_without_catalog(dsn), unreached(error)]
    except SettingError as error:
        return [*check_machine(Settings()), unreached(error)]
    except TrickleError as error:
        return [*check_machine(load_settings()), unreached(error)]


def _check_without_catalog(dsn: str | None) -> list[Check]:
    """Look at a database that was never initialised; of a private server there is none to look at.

    One that has been made for something else is not started for this.
    """
    from pgtrickle.service.insight.checkup.database import check_database

    address = load_settings(dsn=dsn).dsn
    if not address:
        return []
    found, _ = _look(address, load_settings(dsn=dsn), init=False)
    with translated_errors(), Session.open(found.dsn) as session, session.transaction():
        return check_database(session, found.users_path)


def _configure(connection: Session) -> None:
    """Fix the path, and let times be written as the driver reads them.

    Poolers know the style of dates as the session's.  The order in which a date is read stays the
    database's own: it is part of what a query means.
    """
    connection.fix_path(DateStyle="ISO", lock_timeout=_LOCK_TIMEOUT)
    if connection.pooled:
        connection.execute("SET DateStyle = 'ISO'")


def _open_reads(dsn: str) -> ReadConnections:
    from pgtrickle.transit.arrow_reader import ReadConnections

    return ReadConnections(dsn)


class _Adapters:
    """The adapters of one process, closed together."""

    def __init__(
        self,
        dsn: str,
        settings: Settings,
        engine: Engine | None,
        search_path: str,
        spark: SparkSession | None,
        kind: type[Session],
    ) -> None:
        from pgtrickle.spark.engine import SparkEngine
        from pgtrickle.spark.sessions.pair import SparkSessions

        sessions = SparkSessions(
            driver_memory=settings.spark_driver_memory,
            result_bytes=settings.driver_result_bytes,
            class_archive=settings.spark_class_archive,
            secret_file=settings.spark_auth_secret_file,
            session=spark,
        )
        pool = ConnectionPool(
            dsn,
            connection_class=kind,
            min_size=1,
            max_size=connections_for(settings),
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=_configure,
            check=Session.check_open,
            timeout=settings.connection_timeout_seconds,
            # Its attempts come at longer and longer intervals; asking again begins anew.
            reconnect_timeout=_RECONNECT_SECONDS,
            open=True,
            name="pgtrickle",
        )
        if engine is None:
            engine = SparkEngine(dsn, sessions, stall_seconds=settings.refresh_stall_seconds)
        self.runtime = Runtime(
            pool,
            Late(partial(_open_reads, dsn)),
            engine,
            settings,
            search_path,
            remembered=Remembered(settings.template_cache_max_entries),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.engine.close()
        if self.runtime.reads.made is not None:
            self.runtime.reads.made.close()
        self.runtime.pool.close()
