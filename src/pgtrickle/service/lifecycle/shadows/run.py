"""Go on with shadow builds: to the end of one, in this process, or with all that are due."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pgtrickle.catalog.shadows.builds import find_shadow_build, list_due_builds
from pgtrickle.errors import LeaseHeldError, Retry, ShadowNotFoundError, TrickleError
from pgtrickle.model.shadows.build import ShadowState
from pgtrickle.model.stream_table import StreamTable
from pgtrickle.service.lifecycle.shadows.advance import advance
from pgtrickle.service.lifecycle.shadows.cancel import end_without_effect
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0
_LEASE_LOOKED_AT = 0.05


def run_to_the_end(runtime: Runtime, stream_table: StreamTable) -> None:
    """Go on with a shadow build until its query is in force or, if it is held, until it is ready.

    Whatever stops it, also Ctrl-C: the stream table is as it was.
    """
    try:
        while _goes_on(runtime, stream_table):
            pass
    except BaseException:
        with suppress(TrickleError):
            with runtime.connection() as connection:
                build = find_shadow_build(connection, stream_table.id)
            if build is not None and build.state.active:
                end_without_effect(runtime, build, ShadowState.CANCELLED)
        raise


def _goes_on(runtime: Runtime, stream_table: StreamTable) -> bool:
    with runtime.connection() as connection:
        build = find_shadow_build(connection, stream_table.id)
    if build is None or build.state in {ShadowState.CANCELLED, ShadowState.FAILED}:
        why = None if build is None else build.last_error
        raise ShadowNotFoundError(
            f'the shadow build of "{stream_table.name}" was ended: {why or "it was cancelled"}',
            hint="Begin it again if you still want to.",
        )
    if build.state is ShadowState.PROMOTED or (build.state is ShadowState.READY and build.hold):
        return False
    if build.rounds or build.failures:
        time.sleep(runtime.settings.shadow_refresh_throttle_ms / 1000)
    try:
        advance(runtime, build)
    except LeaseHeldError:
        time.sleep(_LEASE_LOOKED_AT)  # another process goes on with it
    except TrickleError as error:
        with runtime.connection() as connection:
            now = find_shadow_build(connection, stream_table.id)
        if now is None or not now.state.active or error.retry is Retry.NEVER:
            raise
        logger.warning("a shadow build goes on after an error: %s", error)
    return True


def follow_due(runtime: Runtime, stop: threading.Event | None = None) -> bool:
    """Make one step of each shadow build that is due; tell whether there was any.

    Errors are recorded with the build.
    """
    with runtime.connection() as connection:
        due = list_due_builds(connection)
    for build in due:
        if stop is not None and stop.is_set():
            break
        try:
            advance(runtime, build)
        except LeaseHeldError:
            pass  # another process goes on with it
        except TrickleError as error:
            logger.warning(
                "could not go on with a shadow build: %s",
                error,
                extra={"shadow": build.shadow_name, "code": error.code},
            )
    return bool(due)


@contextmanager
def following_shadows(runtime: Runtime, leads: Callable[[], bool]) -> Iterator[None]:
    """Go on with the shadow builds, one at a time, from a thread, for the length of a block.

    What is being refreshed at its end is cancelled: the next daemon does it again.
    """
    done = threading.Event()

    def follow() -> None:
        pause = _LOOK_SECONDS
        while not done.wait(pause):
            pause = _LOOK_SECONDS
            if not leads():
                continue
            try:
                if follow_due(runtime, done):
                    throttle = runtime.settings.shadow_refresh_throttle_ms / 1000
                    pause = min(max(throttle, _LEASE_LOOKED_AT), _LOOK_SECONDS)
            except TrickleError as error:
                logger.warning("could not look for shadow builds", extra={"code": error.code})

    thread = threading.Thread(target=follow, name="pgtrickle-shadows", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        while thread.is_alive():
            _cancel_refreshes(runtime)
            thread.join(_LOOK_SECONDS)


def _cancel_refreshes(runtime: Runtime) -> None:
    with suppress(TrickleError), runtime.connection() as connection:
        for build in list_due_builds(connection):
            runtime.jobs.cancel(runtime.engine, build.shadow_name)
