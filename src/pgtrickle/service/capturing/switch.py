"""The setting ``cdc_paused``: pause the capture of every source while it is on, and no longer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pgtrickle.catalog.capture.switched_pauses import (
    forget_switched,
    list_switched,
    list_unpaused,
)
from pgtrickle.errors import SourceNotFoundError, TrickleError
from pgtrickle.model.text.names import QualifiedName
from pgtrickle.service.capturing.pause_and_repair import pause_cdc, resume_cdc
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)

_EVERY = 0.5  # seconds between two looks of a daemon
_PATIENCE = 5.0  # seconds for which a daemon waits for one source; then it goes on with the next


def follow_switch(runtime: Runtime, seconds: float | None = None) -> list[str]:
    """Pause or resume the captures that the setting asks for; return which changed.

    Off is looked at once for each change of the settings; on, again and again, since somebody may
    have made a stream table.  Pauses that somebody asked for stay.  Of a source that is in use for
    longer than ``seconds`` the error is raised when all others have changed.
    """
    wanted, version = runtime.settings.cdc_paused, runtime.settings_version
    if not wanted and runtime.switch_followed == version:
        return []
    changed, errors = [], list[TrickleError]()
    for name in _list_concerned(runtime, wanted=wanted):
        try:
            if wanted:
                changed += pause_cdc(runtime, [name], by_setting=True, seconds=seconds)
            else:
                changed += resume_cdc(runtime, [name], seconds=seconds)
        except SourceNotFoundError:  # no stream table reads it any more
            with runtime.connection() as connection:
                gone = [one for one, its in list_switched(connection).items() if its == name]
                forget_switched(connection, gone)
        except TrickleError as error:
            errors.append(error)
    if changed:
        what = "paused" if wanted else "resumed"
        logger.info("cdc_paused is %s: %s %s", "on" if wanted else "off", what, ", ".join(changed))
    if errors:
        raise errors[0]
    runtime.switch_followed = version
    return changed


def _list_concerned(runtime: Runtime, *, wanted: bool) -> list[QualifiedName]:
    with runtime.connection() as connection:
        if wanted:
            return list_unpaused(connection)
        switched = list_switched(connection)
        if gone := [relid for relid, name in switched.items() if name is None]:
            forget_switched(connection, gone)
    return [name for name in switched.values() if name is not None]


def tend_switch(runtime: Runtime) -> None:
    """Do the same for a daemon, again and again: what fails now is tried again."""
    try:
        follow_switch(runtime, _PATIENCE)
    except TrickleError as error:
        logger.warning("could not follow cdc_paused: %s", error, extra={"code": error.code})


@contextmanager
def following_switch(runtime: Runtime, works: Callable[[], bool]) -> Iterator[None]:
    """Follow the setting from a thread during a block, while ``works`` says so.

    Not in the scheduler's thread: a source in use would hold every refresh up.
    """
    done = threading.Event()

    def follow() -> None:
        while not done.wait(_EVERY):
            if works():
                tend_switch(runtime)

    thread = threading.Thread(target=follow, name="pgtrickle-switch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
