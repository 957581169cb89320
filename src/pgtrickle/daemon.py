"""The daemon: what the scheduler does on one database, and the run that keeps it doing so.

``pgtrickle run`` and ``Trickle.run`` both end up here.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Protocol

from pgtrickle.catalog.capture.health import list_held_back
from pgtrickle.catalog.graph import get_schedule_token
from pgtrickle.catalog.migrate import check_primary, check_version
from pgtrickle.catalog.relay.states import list_states
from pgtrickle.catalog.scheduling.holds import list_holds
from pgtrickle.catalog.settings_table import list_unknown_parameters
from pgtrickle.errors import CatalogOutdatedError, CatalogTooNewError, TrickleError
from pgtrickle.model.lake.sink import SinkNews
from pgtrickle.model.report import RefreshReport
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.model.streams.relay import RelayStatus
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.relay.beside import RelayBeside
from pgtrickle.relay.run import Relay
from pgtrickle.scheduler.admission import Admission, Saturation
from pgtrickle.scheduler.loop import Loop, Watcher
from pgtrickle.scheduler.pace import Cycle, Pace
from pgtrickle.scheduler.timetable import Timetable
from pgtrickle.scheduler.units import Shape
from pgtrickle.scheduler.wakeup import Bell
from pgtrickle.scheduler.workers import Workers
from pgtrickle.service.capturing.mode import tend_capture
from pgtrickle.service.capturing.switch import following_switch
from pgtrickle.service.configuration.follow import following_settings
from pgtrickle.service.immediate.status import list_followed
from pgtrickle.service.insight.metric_values import FigureReader
from pgtrickle.service.insight.status import show_shape, show_stream_tables, show_time_zone
from pgtrickle.service.lifecycle.rename import follow_renames
from pgtrickle.service.lifecycle.shadows.run import follow_due, following_shadows
from pgtrickle.service.projects.after_refreshes import run_due_tests, testing_projects
from pgtrickle.service.refreshing.dispatch import refresh_unit, try_suspended
from pgtrickle.service.requests.server import RequestServer
from pgtrickle.service.runtime import Runtime
from pgtrickle.service.scheduling.bell_listener import listening_for_changes
from pgtrickle.service.scheduling.idle import find_idle
from pgtrickle.service.scheduling.leadership import Leadership, standing_for_leader
from pgtrickle.service.scheduling.paces import note_cycles, show_paces, tell_saturation
from pgtrickle.service.scheduling.prune import prune_history, pruning_history
from pgtrickle.service.scheduling.service_levels import watching_service_levels
from pgtrickle.service.sinks.ducklake.news import SinkWatch
from pgtrickle.service.sinks.ducklake.tend import tend_lake
from pgtrickle.settings import Settings, UnknownSetting

logger = logging.getLogger(__name__)

_JITTER = (0.8, 1.2)  # so that what failed together does not try again together
_TRUST_SECONDS = 60.0  # after which it looks again at who owns what in the catalog


class Attendant(Protocol):
    """A listener of the process that starts a daemon, for the state of the daemon."""

    def begins(self, loop: Loop, figures: FigureReader) -> None:
        """Take note of the loop, and of what reads figures of all stream tables."""
        ...

    def stands(self, leadership: Leadership) -> None:
        """Take note that it works from now on, or stands by."""
        ...

    def passes(self, leadership: Leadership) -> None:
        """Take note of a pass of the loop; called from its thread."""
        ...

    def stops(self) -> None:
        """Take note that the loop has ended."""
        ...


class Unattended:
    """An attendant that takes no note."""

    def begins(self, loop: Loop, figures: FigureReader) -> None:
        """Do nothing."""

    def stands(self, leadership: Leadership) -> None:
        """Do nothing."""

    def passes(self, leadership: Leadership) -> None:
        """Do nothing."""

    def stops(self) -> None:
        """Do nothing."""


class LogWatcher:
    """Writes failures to the log, where refreshes and resumptions are written already."""

    def refreshed(self, report: RefreshReport) -> None:
        """Do nothing: each refresh is logged where it ends."""

    def failed(self, name: str | None, error: TrickleError, retry_in: timedelta) -> None:
        """Log a failure."""
        seconds = retry_in.total_seconds()
        logger.warning(
            "%s: %s; next attempt in %.0f s",
            name or "pgtrickle",
            error,
            seconds,
            extra={
                "stream_table": name,
                "code": error.code,
                "retry_in_seconds": seconds,
                **({} if error.trace_id is None else {"trace_id": error.trace_id}),
            },
        )

    def resumed(self, name: str) -> None:
        """Do nothing: it is logged where it happens."""

    def fell_behind(self, cycle: Cycle) -> None:
        """Log a refresh that took longer than its interval."""
        name, took = str(cycle.stream_table.name), cycle.took.total_seconds()
        every = (cycle.every * cycle.before.stretch).total_seconds()
        logger.warning(
            "%s falls behind: it took %.1f s, and is due every %g s",
            *(name, took, every),
            extra={"stream_table": name, "took_seconds": took, "interval_seconds": every},
        )

    def sink_changed(self, news: SinkNews) -> None:
        """Log a copy in the lake that failed or recovered."""
        found = "recovered" if news.recovered else f"fails: {news.sink.error}"
        name = str(news.sink.stream_table)
        logger.warning("the sink of %s %s", name, found, extra={"stream_table": name})


def _await(run: Future[object], stop: threading.Event) -> None:
    """Wait for a run to end; whatever interrupts the wait, Ctrl-C for one, stops the run first."""
    try:
        run.result()
    except BaseException:
        stop.set()
        run.exception()
        raise


def _stepping_down(gap: TrickleError) -> TrickleError:
    """Return the last words of a daemon whose catalog was migrated while it ran."""
    logger.warning("stepping down: %s", gap, extra={"code": gap.code})
    return type(gap)(
        f"the daemon steps down, and nothing is lost: {gap}",
        hint="Start the daemon with the version of pgtrickle that migrated the catalog.",
    )


class Daemon:
    """The work of the scheduler on one database, in the role of the catalog's owner."""

    def __init__(self, runtime: Runtime, schema: str) -> None:
        self._runtime = runtime
        self._schema = schema  # of names that are given without one
        self._sink_watch = SinkWatch()
        self._renamed: tuple[int, ...] = ()  # of whose new names the catalog could not be told
        self._trusted_at = time.monotonic()  # when nobody had set a trap in the catalog

    def run(
        self,
        stop: threading.Event,
        watcher: Watcher,
        attendant: Attendant | None = None,
        *,
        once: bool = False,
        relay: RelayBeside | None = None,
    ) -> None:
        """Refresh stream tables when they are due, and execute requests, until ``stop`` is set.

        With ``once``, make one pass and return.  A ``relay`` delivers meanwhile, or after the pass.
        """
        self.check_primary()
        attendant = attendant or Unattended()
        loop = Loop(
            self,
            watcher,
            workers=lambda: Workers(lambda: loop.admission.limit),
            admission=Admission(lambda: self.max_concurrent_refreshes),
            timetable=Timetable(
                zone=show_time_zone(self._runtime),
                backs_off=lambda: self._runtime.settings.auto_backoff,
                jitter=lambda: random.uniform(*_JITTER),  # noqa: S311 - nothing is to be kept secret
            ),
        )
        loop.cancel = self.cancel_refreshes
        attendant.begins(loop, self.figure_reader())
        # Not in the main thread: there pyspark would take Ctrl-C over and kill the refresh.
        with ThreadPoolExecutor(max_workers=1) as executor:
            if once:
                executor.submit(self.serve_requests).result()
                _await(executor.submit(loop.run_once, stop), stop)
                _await(executor.submit(self.follow_shadows, stop), stop)
                _await(executor.submit(run_due_tests, self._runtime), stop)
                if relay is not None:
                    _await(executor.submit(relay.deliver, stop), stop)
            else:
                with nullcontext() if relay is None else relay.running(stop):
                    self._run_in(executor, loop, stop, attendant)

    def _run_in(
        self,
        executor: ThreadPoolExecutor,
        loop: Loop,
        stop: threading.Event,
        attendant: Attendant,
    ) -> None:
        with (
            self.pruning_history(),
            watching_service_levels(self._runtime),
            self.standing_for_leader() as leadership,
            self.listening_for_changes() as loop.bell,
            following_settings(self._runtime, partial(self._follow_settings, loop.bell)),
        ):

            def leads() -> bool:
                attendant.passes(leadership)
                if leadership.gap is not None:
                    raise leadership.gap
                return leadership.leads

            loop.leads = leads
            attendant.stands(leadership)

            def works() -> bool:
                return leadership.leads and not stop.is_set()

            with (
                self.serving_requests(works),
                self.following_shadows(works),
                following_switch(self._runtime, works),
                testing_projects(self._runtime, works),
            ):
                try:
                    _await(executor.submit(loop.run, stop), stop)
                except (CatalogTooNewError, CatalogOutdatedError) as error:
                    raise _stepping_down(error) from error
                finally:
                    attendant.stops()

    def expire_settings(self) -> None:
        """Let the settings be looked at at once; a signal handler may call this."""
        if self._runtime.live is not None:
            self._runtime.live.expire()

    def cancel_refreshes(self) -> list[str]:
        """Cancel every refresh that a thread of this process works on; return of which."""
        return self._runtime.jobs.cancel(self._runtime.engine)

    def kill_engine(self) -> None:
        """End Spark at once, whatever it does for this process."""
        self._runtime.engine.kill()

    def relay_beside(self, file: Path | None = None) -> RelayBeside:
        """Return a relay of the pipelines of the catalog and of a file, for ``run``."""
        return RelayBeside(Relay(self._runtime, file))

    def relay_status(self) -> list[RelayStatus]:
        """Return what the pipelines of relays do."""
        with self._runtime.connection() as connection:
            return list_states(connection, None)

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self._runtime.settings

    @property
    def shutdown_seconds(self) -> float:
        """Within how long it ends after a signal."""
        return self._runtime.settings.shutdown_seconds

    def schedule_token(self) -> str:
        """Return a token that changes whenever an input of the schedule changes."""
        with self._runtime.connection() as connection:
            token, renamed = get_schedule_token(connection)
        if renamed != self._renamed:  # else they could not be followed before either
            follow_renames(self._runtime, renamed)
            with self._runtime.connection() as connection:
                token, self._renamed = get_schedule_token(connection)
        return f"{token} {self._runtime.settings_version}"

    def list_stream_tables(self) -> list[StreamTable]:
        """Return every stream table, by name."""
        found = show_stream_tables(self._runtime)
        self._runtime.remembered.retain({one.id for one in found})
        return found

    def shape(self) -> Shape:
        """Return the sources of each stream table, and the groups that are refreshed together."""
        return show_shape(self._runtime)

    def refresh_unit(self, names: Sequence[str]) -> list[RefreshReport]:
        """Refresh a stream table for the scheduler, or several that belong together."""
        return refresh_unit(self._runtime, [self._name(name) for name in names])

    def try_suspended(self, name: str) -> list[RefreshReport]:
        """Refresh what errors have suspended, for the scheduler; success resumes it."""
        return try_suspended(self._runtime, self._name(name))

    def find_idle(self, stream_tables: Sequence[StreamTable]) -> frozenset[int]:
        """Return the ids of those with nothing to do, by one query; note that they are current."""
        return find_idle(self._runtime, stream_tables)

    def find_held(self) -> dict[int, str]:
        """Return the ids of the stream tables that the scheduler leaves alone, and why."""
        with self._runtime.connection() as connection:
            switched_off = "its capture is paused, or pg_trickle.enabled is off"
            held = dict.fromkeys(list_held_back(connection), switched_off)
            held |= list_holds(connection)
            if self._runtime.settings.force_full_refresh:
                return held
            return held | list_followed(connection)

    def list_paces(self) -> dict[int, Pace]:
        """Return which stream tables fall behind their schedules, as it is on record."""
        return show_paces(self._runtime)

    def note_cycles(self, cycles: Sequence[Cycle]) -> None:
        """Record which stream tables fall behind, or keep up again, and alert."""
        note_cycles(self._runtime, cycles)

    def note_saturation(self, saturation: Saturation | None) -> None:
        """Record and tell that due refreshes wait for room, or that none does any more."""
        tell_saturation(self._runtime, saturation)

    def _follow_settings(self, bell: Bell) -> None:
        """Make room for the refreshes that changed settings allow, and let the loop look."""
        self._runtime.fit_pool()
        bell.ring()

    def check_primary(self) -> None:
        """Raise ST504 on a standby, where nothing can be refreshed."""
        with self._runtime.connection_before_catalog() as connection:
            check_primary(connection)

    def unknown_parameters(self) -> list[UnknownSetting]:
        """Return the parameters of PostgreSQL named ``pg_trickle.x`` that are not settings."""
        with self._runtime.connection() as connection:
            return list_unknown_parameters(connection)

    def check_catalog(self) -> None:
        """Raise if another version of the package, or a stranger, has taken the catalog over."""
        now = time.monotonic()
        trusted = now - self._trusted_at < _TRUST_SECONDS
        with self._runtime.connection() as connection:
            check_version(connection, trusted=trusted)
        if not trusted:
            self._trusted_at = now

    @property
    def max_concurrent_refreshes(self) -> int:
        """How many refreshes may go on at a time, by the process and by the database's quota."""
        settings = self._runtime.settings
        quota = settings.per_database_worker_quota or settings.max_concurrent_refreshes
        return min(quota, settings.max_concurrent_refreshes)

    def prune_history(self) -> int:
        """Delete the history that is older than the settings keep it; return how many rows."""
        return prune_history(self._runtime)

    def pruning_history(self) -> AbstractContextManager[None]:
        """Prune the history again and again, for the length of a block."""
        return pruning_history(self._runtime)

    def figure_reader(self) -> FigureReader:
        """Return what reads figures of all stream tables and sinks, for metrics."""
        return FigureReader(self._runtime)

    def standing_for_leader(self) -> AbstractContextManager[Leadership]:
        """Ask for the lead among the daemons on this database, for the length of a block."""
        return standing_for_leader(self._runtime)

    def listening_for_changes(self) -> AbstractContextManager[Bell]:
        """Let changes ring a bell, for the length of a block."""
        return listening_for_changes(self._runtime)

    def tend_capture(self) -> None:
        """Read the log, watch the slot and hand sources over, if it is time for that."""
        tend_capture(self._runtime)

    def tend_lake(self) -> bool:
        """Follow attached tables, try deliveries that are due again, tidy the lake in time.

        Returns whether a table is attached.
        """
        return tend_lake(self._runtime, self._sink_watch)

    def sink_news(self) -> list[SinkNews]:
        """Return which copies in the lake failed or recovered since this was last called.

        They are looked at whenever the lake is tended.
        """
        return self._sink_watch.take()

    def serve_requests(self) -> int:
        """Execute what SQL sessions ask for by now; return how many requests that were."""
        with RequestServer(self._runtime) as server:
            return server.serve()

    def serving_requests(
        self, leads: Callable[[], bool] = lambda: True
    ) -> AbstractContextManager[object]:
        """Execute what SQL sessions ask for, from threads, for the length of a block.

        Takes nothing on while ``leads`` says no: then another process does.
        """
        return RequestServer(self._runtime, leads=leads, workers=self.max_concurrent_refreshes)

    def follow_shadows(self, stop: threading.Event) -> None:
        """Make one step of each shadow build that is due."""
        follow_due(self._runtime, stop)

    def following_shadows(self, leads: Callable[[], bool]) -> AbstractContextManager[None]:
        """Go on with shadow builds, for the length of a block, while ``leads`` says so."""
        return following_shadows(self._runtime, leads)

    def _name(self, text: str) -> QualifiedName:
        return QualifiedName.parse(text, self._schema)
