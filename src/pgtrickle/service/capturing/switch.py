"""The setting ``cdc_paused``: pause the capture of every source while it is on, and no longer."""

from __future__ import annotations

import logging

from pgtrickle.catalog.capture.switched_pauses import (
    forget_switched,
    list_switched,
    list_unpaused,
)
from pgtrickle.errors import ConnectionLostError, SourceNotFoundError, TrickleError
from pgtrickle.service.capturing.pause_and_repair import pause_cdc, resume_cdc
from pgtrickle.service.runtime import Runtime

logger = logging.getLogger(__name__)


def follow_switch(runtime: Runtime) -> list[str]:
    """Pause or resume the captures that the setting asks for; return which changed.

    Off is looked at once for each change of the settings; on, again and again, since somebody may
    have made a stream table.  Pauses that somebody asked for stay.
    """
    wanted, version = runtime.settings.cdc_paused, runtime.settings_version
    if not wanted and runtime.switch_followed == version:
        return []
    with runtime.connection() as connection:
        unpaused = list_unpaused(connection) if wanted else []
        switched = {} if wanted else list_switched(connection)
        gone = [relid for relid, name in switched.items() if name is None]
        if gone:
            forget_switched(connection, gone)
    names = [name for name in switched.values() if name is not None]
    changed = pause_cdc(runtime, unpaused, by_setting=True) if unpaused else []
    for name in names:
        try:
            changed += resume_cdc(runtime, [name])
        except SourceNotFoundError:  # no stream table reads it any more
            with runtime.connection() as connection:
                forget_switched(connection, switched)
    if changed:
        what = "paused" if wanted else "resumed"
        logger.info("cdc_paused is %s: %s %s", "on" if wanted else "off", what, ", ".join(changed))
    runtime.switch_followed = version
    return changed


def tend_switch(runtime: Runtime) -> None:
    """Do the same for a daemon, again and again: what fails now is tried again."""
    try:
        follow_switch(runtime)
    except ConnectionLostError:
        raise
    except TrickleError as error:
        logger.warning("could not follow cdc_paused: %s", error, extra={"code": error.code})
